CREATE OR REPLACE TRIGGER note_added AFTER INSERT ON endpoints
    REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION note_endpoints();
CREATE OR REPLACE TRIGGER note_removed AFTER DELETE ON endpoints
    REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION note_endpoints();
CREATE OR REPLACE TRIGGER note_changed AFTER UPDATE ON endpoints
    FOR EACH ROW WHEN (NEW.status <> OLD.status OR NEW.valid_until IS DISTINCT FROM OLD.valid_until)
    EXECUTE FUNCTION note_changed_endpoint();
CREATE OR REPLACE TRIGGER replica_added AFTER INSERT ON endpoints
    REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION record_endpoint_changes();
CREATE OR REPLACE TRIGGER replica_changed AFTER UPDATE ON endpoints
    REFERENCING OLD TABLE AS before NEW TABLE AS changed FOR EACH STATEMENT
    EXECUTE FUNCTION record_endpoint_changes();
CREATE OR REPLACE TRIGGER replica_removed AFTER DELETE ON endpoints
    REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION record_endpoint_changes();

CREATE OR REPLACE TRIGGER replica_added AFTER INSERT ON endpoint_group_members
    REFERENCING NEW TABLE AS members FOR EACH STATEMENT EXECUTE FUNCTION record_endpoint_member_changes();
CREATE OR REPLACE TRIGGER replica_removed AFTER DELETE ON endpoint_group_members
    REFERENCING OLD TABLE AS members FOR EACH STATEMENT EXECUTE FUNCTION record_endpoint_member_changes();

CREATE OR REPLACE TRIGGER member_change AFTER UPDATE OF name, psk_sealed, rule ON endpoint_groups
    FOR EACH ROW WHEN (
        OLD.name <> NEW.name
        OR OLD.psk_sealed IS DISTINCT FROM NEW.psk_sealed
        OR (OLD.rule IS NULL) <> (NEW.rule IS NULL)
    )
    EXECUTE FUNCTION record_endpoint_group_change();
