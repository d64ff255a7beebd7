-- Roll-outs know their job; one whose job ends before it is stopped and says why, whoever ended the job.
ALTER TABLE rollouts
    ADD COLUMN job_id uuid,
    -- Goes back by itself where devices fare otherwise.
    ADD COLUMN back_when_moved boolean NOT NULL DEFAULT false;
CREATE INDEX ix_rollouts_job_id ON rollouts (job_id);
ALTER TABLE rollout_tenants
    DROP CONSTRAINT ck_rollout_tenants_state,
    ADD CONSTRAINT ck_rollout_tenants_state
        CHECK (state IN ('waiting', 'applied', 'failed', 'rolled-back', 'left-out'));
-- Which job they belong to is not known of those from before.
UPDATE rollouts SET state = 'stopped', detail = 'Stopped by an upgrade: go on with it.', ended_at = now()
WHERE state IN ('running', 'rolling-back');

CREATE FUNCTION stop_rollout_of_job() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
BEGIN
    UPDATE rollouts SET state = 'stopped', ended_at = now(), detail = CASE
        WHEN NEW.state = 'cancelled' THEN 'Its job was cancelled.'
        ELSE 'Its job failed: ' || coalesce(nullif(NEW.problem ->> 'detail', ''), NEW.problem ->> 'title', '')
    END
    WHERE job_id = NEW.id AND state IN ('running', 'rolling-back');
    RETURN NULL;
END
$$;
CREATE TRIGGER stop_rollout AFTER UPDATE OF state ON jobs FOR EACH ROW
    WHEN (NEW.kind = 'templates.roll-out' AND NEW.state IN ('failed', 'cancelled') AND OLD.state <> NEW.state)
    EXECUTE FUNCTION stop_rollout_of_job();
