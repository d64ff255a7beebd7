CREATE OR REPLACE TRIGGER note_ended AFTER UPDATE ON sessions
    REFERENCING OLD TABLE AS before NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION note_sessions();
-- Recalled sessions began and ended long ago.
CREATE OR REPLACE TRIGGER note_begun AFTER INSERT ON sessions
    REFERENCING NEW TABLE AS added
    FOR EACH STATEMENT WHEN (current_setting('admit.recalls', true) IS DISTINCT FROM 'on')
    EXECUTE FUNCTION note_sessions();
