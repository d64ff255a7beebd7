-- How often a job was taken from who did not come back, since it last went on.
ALTER TABLE jobs ADD COLUMN lapses int NOT NULL DEFAULT 0;

-- Takes the job whose turn it is, for so long; no row where none waits, or `most` run already. Owners have the same
-- chance, however many jobs they have, and one at a time.
CREATE OR REPLACE FUNCTION take_job(lease interval, most int) RETURNS TABLE (id uuid, msp_id uuid, tenant_id uuid)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    -- One taker at a time: it takes a millisecond, and each sees what the one before has taken.
    PERFORM pg_advisory_xact_lock(hashtext('take_job'));
    IF (SELECT count(*) FROM jobs r WHERE r.state = 'running' AND r.due_at > now()) >= most THEN
        RETURN;
    END IF;
    RETURN QUERY
    UPDATE jobs j SET
        state = 'running', takes = j.takes + 1,
        lapses = j.lapses + CASE j.state WHEN 'running' THEN 1 ELSE 0 END, due_at = now() + lease, started_at = coalesce(j.started_at, now())
    WHERE j.id = (
        SELECT w.id FROM (
            SELECT DISTINCT ON (q.msp_id, q.tenant_id) q.id, q.due_at FROM jobs q
            WHERE q.state IN ('queued', 'running') AND q.due_at <= now()
                AND NOT EXISTS (
                    SELECT FROM jobs r WHERE r.state = 'running' AND r.due_at > now()
                        AND r.msp_id IS NOT DISTINCT FROM q.msp_id AND r.tenant_id IS NOT DISTINCT FROM q.tenant_id
                )
            ORDER BY q.msp_id, q.tenant_id, q.created_at, q.id
        ) w ORDER BY random() LIMIT 1
    )
    RETURNING j.id, j.msp_id, j.tenant_id;
END
$$;
