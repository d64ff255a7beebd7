-- Answers to changes that their askers named by a key: who asks again is given the same answer, and nothing is done.
CREATE TABLE idempotency_keys (
    id bigint CONSTRAINT pk_idempotency_keys PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    msp_id uuid CONSTRAINT fk_idempotency_keys_msp_id REFERENCES msps ON DELETE CASCADE,
    tenant_id uuid CONSTRAINT fk_idempotency_keys_tenant_id REFERENCES tenants ON DELETE CASCADE,
    asker text NOT NULL,
    key text NOT NULL,
    -- SHA-256 of method, path, query and body.
    request_sha256 bytea NOT NULL,
    status int,
    headers jsonb,
    body_sealed bytea,
    created_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT uq_idempotency_keys_key UNIQUE NULLS NOT DISTINCT (msp_id, tenant_id, asker, key)
);
CREATE INDEX ix_idempotency_keys_created_at ON idempotency_keys (created_at);
ALTER TABLE idempotency_keys ENABLE ROW LEVEL SECURITY;
CREATE POLICY owner_scope ON idempotency_keys TO admit_app
    USING (msp_id = scope_msp_id() OR tenant_id = scope_tenant_id() OR scope_is_platform())
    WITH CHECK (msp_id = scope_msp_id() OR tenant_id = scope_tenant_id() OR scope_is_platform());
CREATE POLICY pruning ON idempotency_keys TO admit_worker USING (scope_is_platform());
GRANT SELECT, INSERT, UPDATE ON idempotency_keys TO admit_app;
GRANT SELECT, DELETE ON idempotency_keys TO admit_worker;
