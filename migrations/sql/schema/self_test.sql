CREATE TABLE self_tests (
    id uuid CONSTRAINT pk_self_tests PRIMARY KEY DEFAULT gen_random_uuid(),
    tenant_id uuid NOT NULL CONSTRAINT fk_self_tests_tenant_id REFERENCES tenants ON DELETE CASCADE,
    state text NOT NULL DEFAULT 'queued'
        CONSTRAINT ck_self_tests_state CHECK (state IN ('queued', 'running', 'done', 'failed')),
    requested_by text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    -- When a worker can take the row: immediately, or after the lease of a worker that died.
    due_at timestamptz NOT NULL DEFAULT now(),
    started_at timestamptz,
    ended_at timestamptz,
    attempts int NOT NULL DEFAULT 0,
    passed boolean,
    -- A row of nac.onboarding.self_tests.board for each check.
    board jsonb NOT NULL DEFAULT '[]',
    error text NOT NULL DEFAULT ''
);
CREATE INDEX ix_self_tests_tenant_id_created_at ON self_tests (tenant_id, created_at, id);
CREATE INDEX ix_self_tests_waiting ON self_tests (due_at) WHERE state IN ('queued', 'running');
GRANT SELECT, INSERT, DELETE ON self_tests TO admit_app;
GRANT SELECT, INSERT, UPDATE, DELETE ON self_tests TO admit_worker;
GRANT SELECT (tenant_id, state, due_at, ended_at) ON self_tests TO admit_cell;
