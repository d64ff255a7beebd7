CREATE OR REPLACE TRIGGER replica_change AFTER INSERT OR DELETE ON sites
    FOR EACH ROW EXECUTE FUNCTION record_replica_change('site', 'id');
CREATE OR REPLACE TRIGGER replica_update AFTER UPDATE ON sites
    FOR EACH ROW WHEN (OLD.* IS DISTINCT FROM NEW.*) EXECUTE FUNCTION record_replica_change('site', 'id');
