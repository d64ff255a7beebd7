CREATE OR REPLACE TRIGGER replica_change AFTER INSERT OR DELETE ON certificate_authorities
    FOR EACH ROW EXECUTE FUNCTION record_replica_change('authority', 'id');
CREATE OR REPLACE TRIGGER replica_update AFTER UPDATE ON certificate_authorities
    FOR EACH ROW WHEN (OLD.* IS DISTINCT FROM NEW.*) EXECUTE FUNCTION record_replica_change('authority', 'id');

CREATE OR REPLACE TRIGGER replica_change AFTER INSERT OR DELETE ON certificates
    FOR EACH ROW EXECUTE FUNCTION record_replica_change('certificate', 'serial');
CREATE OR REPLACE TRIGGER replica_update AFTER UPDATE ON certificates
    FOR EACH ROW WHEN (OLD.* IS DISTINCT FROM NEW.*)
    EXECUTE FUNCTION record_replica_change('certificate', 'serial');
CREATE OR REPLACE TRIGGER note_added AFTER INSERT ON certificates
    REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION note_certificates();
CREATE OR REPLACE TRIGGER note_changed AFTER UPDATE ON certificates
    REFERENCING OLD TABLE AS before NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION note_certificates();

CREATE OR REPLACE TRIGGER note_issued AFTER INSERT ON certificate_authorities
    FOR EACH ROW WHEN (NEW.kind <> 'external') EXECUTE FUNCTION note_authority();
CREATE OR REPLACE TRIGGER note_revoked AFTER UPDATE ON certificate_authorities
    FOR EACH ROW WHEN (NEW.status = 'revoked' AND OLD.status <> 'revoked') EXECUTE FUNCTION note_authority();

CREATE OR REPLACE TRIGGER note_warned AFTER INSERT ON expiry_warnings
    REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION note_expiry_warnings();
