CREATE OR REPLACE TRIGGER stop_rollout AFTER UPDATE OF state ON jobs
    FOR EACH ROW WHEN (
        NEW.kind = 'templates.roll-out'
        AND NEW.state IN ('failed', 'cancelled')
        AND OLD.state <> NEW.state
    )
    EXECUTE FUNCTION stop_rollout_of_job();
