CREATE OR REPLACE TRIGGER replica_change AFTER INSERT OR DELETE OR UPDATE OF state ON secret_rotations
    FOR EACH ROW EXECUTE FUNCTION record_rotation_change();
