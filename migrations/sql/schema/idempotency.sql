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
