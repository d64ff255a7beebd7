-- What is too long for an answer. The row is written in the transaction of the request, and is all that waits: the broker
-- may lose what it has.
CREATE TABLE jobs (
    id uuid CONSTRAINT pk_jobs PRIMARY KEY DEFAULT gen_random_uuid(),
    -- Neither: of the platform.
    msp_id uuid CONSTRAINT fk_jobs_msp_id REFERENCES msps ON DELETE CASCADE,
    tenant_id uuid CONSTRAINT fk_jobs_tenant_id REFERENCES tenants ON DELETE CASCADE,
    -- noun.verb, as worker/handlers.py names it.
    kind text NOT NULL,
    -- What a person calls it.
    title text NOT NULL,
    state text NOT NULL DEFAULT 'queued'
        CONSTRAINT ck_jobs_state CHECK (state IN ('queued', 'running', 'done', 'failed', 'cancelled')),
    -- Somebody wants it to end; who runs it looks.
    is_cancelled boolean NOT NULL DEFAULT false,
    -- Of `total`, in the kind's own unit; a total of 0 is not known.
    done bigint NOT NULL DEFAULT 0,
    total bigint NOT NULL DEFAULT 0,
    -- What it is to be done with; gone when it is done.
    input_sealed bytea,
    -- Where a job of several transactions is.
    place jsonb NOT NULL DEFAULT '{}',
    result jsonb,
    -- Members of a problem (RFC 9457), once it failed or while it is tried again.
    problem jsonb,
    -- How often it was taken: who was taken over knows it by that.
    takes int NOT NULL DEFAULT 0,
    failures int NOT NULL DEFAULT 0,
    -- When it may be taken; of a running one, when somebody else may take it.
    due_at timestamptz NOT NULL DEFAULT now(),
    asked_by text NOT NULL,
    address inet,
    request_id text,
    created_at timestamptz NOT NULL DEFAULT now(),
    started_at timestamptz,
    ended_at timestamptz,
    CONSTRAINT ck_jobs_owner CHECK (num_nonnulls(msp_id, tenant_id) <= 1)
);
CREATE INDEX ix_jobs_due_at ON jobs (due_at) WHERE state IN ('queued', 'running');
CREATE INDEX ix_jobs_ended_at ON jobs (ended_at) WHERE ended_at IS NOT NULL;
CREATE INDEX ix_jobs_tenant_id ON jobs (tenant_id, created_at, id) WHERE tenant_id IS NOT NULL;
CREATE INDEX ix_jobs_msp_id ON jobs (msp_id, created_at, id) WHERE msp_id IS NOT NULL;
CREATE INDEX ix_jobs_platform ON jobs (created_at, id) WHERE msp_id IS NULL AND tenant_id IS NULL;

ALTER TABLE jobs ENABLE ROW LEVEL SECURITY;
CREATE POLICY owner_scope ON jobs TO admit_app, admit_worker
    USING (msp_id = scope_msp_id() OR tenant_id = scope_tenant_id() OR scope_is_platform())
    WITH CHECK (msp_id = scope_msp_id() OR tenant_id = scope_tenant_id() OR scope_is_platform());
GRANT SELECT, INSERT, UPDATE ON jobs TO admit_app;
GRANT SELECT, INSERT, UPDATE, DELETE ON jobs TO admit_worker;

-- Takes the job whose turn it is, for so long; no row where none waits, or `most` run already. Owners have the same
-- chance, however many jobs they have, and one at a time.
CREATE FUNCTION take_job(lease interval, most int) RETURNS TABLE (id uuid, msp_id uuid, tenant_id uuid)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    -- One taker at a time: it takes a millisecond, and each sees what the one before has taken.
    PERFORM pg_advisory_xact_lock(hashtext('take_job'));
    IF (SELECT count(*) FROM jobs r WHERE r.state = 'running' AND r.due_at > now()) >= most THEN
        RETURN;
    END IF;
    RETURN QUERY
    UPDATE jobs j SET
        state = 'running', takes = j.takes + 1, due_at = now() + lease, started_at = coalesce(j.started_at, now())
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
REVOKE EXECUTE ON FUNCTION take_job(interval, int) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION take_job(interval, int) TO admit_worker;
