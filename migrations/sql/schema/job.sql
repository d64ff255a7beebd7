-- Work that takes too long for one request. The request's transaction inserts the row. Only the
-- row counts, because the broker can lose its messages.
CREATE TABLE jobs (
    id uuid CONSTRAINT pk_jobs PRIMARY KEY DEFAULT gen_random_uuid(),
    -- The platform if both msp_id and tenant_id are NULL.
    msp_id uuid CONSTRAINT fk_jobs_msp_id REFERENCES msps ON DELETE CASCADE,
    tenant_id uuid CONSTRAINT fk_jobs_tenant_id REFERENCES tenants ON DELETE CASCADE,
    -- noun.verb, as in worker/handlers.py.
    kind text NOT NULL,
    -- Name for people.
    title text NOT NULL,
    state text NOT NULL DEFAULT 'queued'
        CONSTRAINT ck_jobs_state CHECK (state IN ('queued', 'running', 'done', 'failed', 'cancelled')),
    -- A person cancelled the job. Its runner checks this.
    is_cancelled boolean NOT NULL DEFAULT false,
    -- Of `total`, in the kind's own unit. A total of 0 is unknown.
    done bigint NOT NULL DEFAULT 0,
    total bigint NOT NULL DEFAULT 0,
    -- Deleted when the job ends.
    input_sealed bytea,
    -- Position of a job of several transactions.
    place jsonb NOT NULL DEFAULT '{}',
    result jsonb,
    -- Members of a problem (RFC 9457): of a failed job, or of the last attempt.
    problem jsonb,
    -- Number of times that runners took the job. A runner with an older number has lost it.
    takes int NOT NULL DEFAULT 0,
    failures int NOT NULL DEFAULT 0,
    -- When a runner can take the job. For a running job: the end of the lease.
    due_at timestamptz NOT NULL DEFAULT now(),
    requested_by text NOT NULL,
    address inet,
    request_id text,
    created_at timestamptz NOT NULL DEFAULT now(),
    started_at timestamptz,
    ended_at timestamptz,
    -- Number of leases that ended without a result since the last progress.
    lapses int NOT NULL DEFAULT 0,
    -- Permissions to start the job. A retry requires them too.
    needs text[],
    CONSTRAINT ck_jobs_owner CHECK (num_nonnulls(msp_id, tenant_id) <= 1)
);
CREATE INDEX ix_jobs_due_at ON jobs (due_at) WHERE state IN ('queued', 'running');
CREATE INDEX ix_jobs_ended_at ON jobs (ended_at) WHERE ended_at IS NOT NULL;
CREATE INDEX ix_jobs_tenant_id ON jobs (tenant_id, created_at, id) WHERE tenant_id IS NOT NULL;
CREATE INDEX ix_jobs_msp_id ON jobs (msp_id, created_at, id) WHERE msp_id IS NOT NULL;
CREATE INDEX ix_jobs_platform ON jobs (created_at, id) WHERE msp_id IS NULL AND tenant_id IS NULL;
GRANT SELECT, INSERT, UPDATE ON jobs TO admit_app;
GRANT SELECT, INSERT, UPDATE, DELETE ON jobs TO admit_worker;

-- Responses to changes with an idempotency key. A repeated request gets the same response, and
-- nothing is done again.
CREATE TABLE idempotency_keys (
    id bigint CONSTRAINT pk_idempotency_keys PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    msp_id uuid CONSTRAINT fk_idempotency_keys_msp_id REFERENCES msps ON DELETE CASCADE,
    tenant_id uuid CONSTRAINT fk_idempotency_keys_tenant_id REFERENCES tenants ON DELETE CASCADE,
    -- The caller.
    asker text NOT NULL,
    key text NOT NULL,
    -- SHA-256 of method, path, query and body.
    request_sha256 bytea NOT NULL,
    status int,
    headers jsonb,
    body_sealed bytea,
    created_at timestamptz NOT NULL DEFAULT now(),
    -- The object created by a change of several commits. After a crash, a repeated request
    -- continues with it. No reference, because the object may no longer exist.
    made_id uuid,
    CONSTRAINT uq_idempotency_keys_key UNIQUE NULLS NOT DISTINCT (msp_id, tenant_id, asker, key)
);
CREATE INDEX ix_idempotency_keys_created_at ON idempotency_keys (created_at);
GRANT SELECT, INSERT, UPDATE ON idempotency_keys TO admit_app;
GRANT SELECT, DELETE ON idempotency_keys TO admit_worker;
