CREATE OR REPLACE TRIGGER replica_change AFTER INSERT OR DELETE ON sites
    FOR EACH ROW EXECUTE FUNCTION record_replica_change('site', 'id');
CREATE OR REPLACE TRIGGER replica_update AFTER UPDATE ON sites
    FOR EACH ROW WHEN (OLD.* IS DISTINCT FROM NEW.*) EXECUTE FUNCTION record_replica_change('site', 'id');

CREATE OR REPLACE TRIGGER replica_change AFTER INSERT OR DELETE ON nases
    FOR EACH ROW EXECUTE FUNCTION record_replica_change('nas', 'id');
CREATE OR REPLACE TRIGGER replica_update AFTER UPDATE ON nases
    FOR EACH ROW WHEN (OLD.* IS DISTINCT FROM NEW.*) EXECUTE FUNCTION record_replica_change('nas', 'id');
CREATE OR REPLACE TRIGGER forget_signatures AFTER UPDATE OF address, require_message_authenticator ON nases
    FOR EACH ROW WHEN (
        OLD.address IS DISTINCT FROM NEW.address
        OR OLD.require_message_authenticator AND NOT NEW.require_message_authenticator
    )
    EXECUTE FUNCTION forget_nas_signatures();
