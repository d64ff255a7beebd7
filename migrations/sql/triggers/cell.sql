CREATE OR REPLACE TRIGGER replica_change AFTER INSERT OR DELETE ON slots
    FOR EACH ROW EXECUTE FUNCTION record_replica_change('slot', 'number');
CREATE OR REPLACE TRIGGER replica_update AFTER UPDATE ON slots
    FOR EACH ROW WHEN (OLD.* IS DISTINCT FROM NEW.*) EXECUTE FUNCTION record_replica_change('slot', 'number');

CREATE OR REPLACE TRIGGER note_alarms AFTER UPDATE ON cells
    FOR EACH ROW WHEN (OLD.alarms IS DISTINCT FROM NEW.alarms) EXECUTE FUNCTION note_cell_alarms();

CREATE OR REPLACE TRIGGER hand_over AFTER INSERT ON quarantined_records
    FOR EACH ROW WHEN (NEW.tenant_id IS NOT NULL) EXECUTE FUNCTION hand_over_record();

CREATE OR REPLACE TRIGGER take_records_along AFTER UPDATE OF tenant_id ON slots
    FOR EACH ROW WHEN (NEW.tenant_id IS NOT NULL AND OLD.tenant_id IS NULL)
    EXECUTE FUNCTION take_records_along();
