CREATE OR REPLACE TRIGGER replica_change AFTER INSERT OR DELETE ON identity_sources
    FOR EACH ROW EXECUTE FUNCTION record_replica_change('identity-source', 'id');
CREATE OR REPLACE TRIGGER replica_update AFTER UPDATE ON identity_sources
    FOR EACH ROW WHEN (OLD.* IS DISTINCT FROM NEW.*)
    EXECUTE FUNCTION record_replica_change('identity-source', 'id');
