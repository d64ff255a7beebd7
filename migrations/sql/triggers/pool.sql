CREATE OR REPLACE TRIGGER replica_change AFTER INSERT OR DELETE ON pools
    FOR EACH ROW EXECUTE FUNCTION record_replica_change('pool', 'id');
CREATE OR REPLACE TRIGGER replica_update AFTER UPDATE ON pools
    FOR EACH ROW WHEN (OLD.* IS DISTINCT FROM NEW.*) EXECUTE FUNCTION record_replica_change('pool', 'id');

CREATE OR REPLACE TRIGGER replica_insert AFTER INSERT ON pool_addresses
    REFERENCING NEW TABLE AS changed_rows FOR EACH STATEMENT EXECUTE FUNCTION record_pool_change();
CREATE OR REPLACE TRIGGER replica_delete AFTER DELETE ON pool_addresses
    REFERENCING OLD TABLE AS changed_rows FOR EACH STATEMENT EXECUTE FUNCTION record_pool_change();
CREATE OR REPLACE TRIGGER replica_update AFTER UPDATE ON pool_addresses
    REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows FOR EACH STATEMENT
    EXECUTE FUNCTION record_pool_change();
