CREATE OR REPLACE TRIGGER replica_change AFTER INSERT OR DELETE ON users
    FOR EACH ROW EXECUTE FUNCTION record_replica_change('user', 'name');
CREATE OR REPLACE TRIGGER replica_update AFTER UPDATE ON users
    FOR EACH ROW WHEN (OLD.* IS DISTINCT FROM NEW.*) EXECUTE FUNCTION record_replica_change('user', 'name');

CREATE OR REPLACE TRIGGER replica_change AFTER INSERT OR DELETE ON user_group_members
    FOR EACH ROW EXECUTE FUNCTION record_member_change('user', 'users', 'name', 'user_id');

CREATE OR REPLACE TRIGGER member_change AFTER UPDATE OF name ON user_groups
    FOR EACH ROW WHEN (OLD.name <> NEW.name) EXECUTE FUNCTION record_user_group_change();

CREATE OR REPLACE TRIGGER replica_change AFTER INSERT OR DELETE ON identity_sources
    FOR EACH ROW EXECUTE FUNCTION record_replica_change('identity-source', 'id');
CREATE OR REPLACE TRIGGER replica_update AFTER UPDATE ON identity_sources
    FOR EACH ROW WHEN (OLD.* IS DISTINCT FROM NEW.*)
    EXECUTE FUNCTION record_replica_change('identity-source', 'id');
