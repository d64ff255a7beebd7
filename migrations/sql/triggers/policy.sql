CREATE OR REPLACE TRIGGER replica_change AFTER INSERT OR DELETE ON policies
    FOR EACH ROW EXECUTE FUNCTION record_replica_change('policy', 'id');
CREATE OR REPLACE TRIGGER replica_update AFTER UPDATE ON policies
    FOR EACH ROW WHEN (OLD.* IS DISTINCT FROM NEW.*) EXECUTE FUNCTION record_replica_change('policy', 'id');

CREATE OR REPLACE TRIGGER replica_change AFTER INSERT OR UPDATE ON policy_versions
    FOR EACH ROW WHEN (NEW.status = 'published') EXECUTE FUNCTION record_replica_change('policy', 'policy_id');
