CREATE TABLE self_tests (
    id uuid CONSTRAINT pk_self_tests PRIMARY KEY DEFAULT gen_random_uuid(),
    tenant_id uuid NOT NULL CONSTRAINT fk_self_tests_tenant_id REFERENCES tenants ON DELETE CASCADE,
    state text NOT NULL DEFAULT 'queued'
        CONSTRAINT ck_self_tests_state CHECK (state IN ('queued', 'running', 'done', 'failed')),
    asked_by text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    -- When it may be taken: at once, and, by whoever comes after a worker that has died, once that one's time is over.
    due_at timestamptz NOT NULL DEFAULT now(),
    started_at timestamptz,
    ended_at timestamptz,
    attempts int NOT NULL DEFAULT 0,
    passed boolean,
    -- nac.self_tests.board.Row of each check.
    board jsonb NOT NULL DEFAULT '[]',
    error text NOT NULL DEFAULT ''
);
CREATE INDEX ix_self_tests_tenant_id_created_at ON self_tests (tenant_id, created_at, id);
CREATE INDEX ix_self_tests_waiting ON self_tests (due_at) WHERE state IN ('queued', 'running');
GRANT SELECT, INSERT, DELETE ON self_tests TO admit_app, admit_worker;
GRANT UPDATE ON self_tests TO admit_worker;

CREATE FUNCTION waiting_self_tests(most int) RETURNS TABLE (tenant_id uuid, id uuid)
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
    SELECT t.tenant_id, t.id FROM self_tests t
    WHERE t.state IN ('queued', 'running') AND t.due_at <= now() ORDER BY t.due_at LIMIT most
$$;
REVOKE EXECUTE ON FUNCTION waiting_self_tests(int) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION waiting_self_tests(int) TO admit_worker;
