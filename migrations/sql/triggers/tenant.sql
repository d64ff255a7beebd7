CREATE OR REPLACE TRIGGER purged AFTER DELETE ON tenants FOR EACH ROW EXECUTE FUNCTION record_purged_tenant();
CREATE OR REPLACE TRIGGER replica_change AFTER INSERT OR DELETE ON tenants
    FOR EACH ROW EXECUTE FUNCTION record_replica_change('tenant', 'id');
CREATE OR REPLACE TRIGGER replica_update AFTER UPDATE ON tenants
    FOR EACH ROW WHEN (OLD.* IS DISTINCT FROM NEW.*) EXECUTE FUNCTION record_replica_change('tenant', 'id');
