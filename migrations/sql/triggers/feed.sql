CREATE OR REPLACE TRIGGER note_failing AFTER UPDATE ON feeds
    FOR EACH ROW WHEN ((OLD.failure_reported_at IS NULL) <> (NEW.failure_reported_at IS NULL))
    EXECUTE FUNCTION note_failing_feed();
CREATE OR REPLACE TRIGGER note_removed AFTER DELETE ON feeds
    FOR EACH ROW WHEN (OLD.failure_reported_at IS NOT NULL) EXECUTE FUNCTION note_failing_feed();

CREATE OR REPLACE TRIGGER mark_for_feeds AFTER INSERT ON event_notes
    REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION mark_notes_for_feeds();
