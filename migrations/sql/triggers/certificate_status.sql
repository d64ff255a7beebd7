CREATE OR REPLACE TRIGGER replica_insert AFTER INSERT ON external_statuses
    REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION record_external_statuses();
CREATE OR REPLACE TRIGGER replica_update AFTER UPDATE ON external_statuses
    REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION record_external_statuses();
CREATE OR REPLACE TRIGGER replica_delete AFTER DELETE ON external_statuses
    REFERENCING OLD TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION record_external_statuses();

-- The authority's record includes the end of its list's validity.
CREATE OR REPLACE TRIGGER replica_change AFTER INSERT OR DELETE ON status_sources
    FOR EACH ROW EXECUTE FUNCTION record_replica_change('authority', 'authority_id');
CREATE OR REPLACE TRIGGER replica_update AFTER UPDATE ON status_sources
    FOR EACH ROW WHEN (OLD.crl_next_update IS DISTINCT FROM NEW.crl_next_update)
    EXECUTE FUNCTION record_replica_change('authority', 'authority_id');
