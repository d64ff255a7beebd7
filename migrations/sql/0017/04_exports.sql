-- Logs written into files. `done_until` is how far a job has come: all before it is in its `parts`.
CREATE TABLE export_jobs (
    id bigint CONSTRAINT pk_export_jobs PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    tenant_id uuid NOT NULL CONSTRAINT fk_export_jobs_tenant_id REFERENCES tenants ON DELETE CASCADE,
    log text NOT NULL CONSTRAINT ck_export_jobs_log CHECK (log IN ('auth', 'accounting', 'sessions', 'usage')),
    since timestamptz NOT NULL,
    until timestamptz NOT NULL,
    format text NOT NULL CONSTRAINT ck_export_jobs_format CHECK (format IN ('csv', 'jsonl', 'parquet')),
    -- Of a day that is about to be deleted.
    standing boolean NOT NULL DEFAULT false,
    state text NOT NULL DEFAULT 'queued'
        CONSTRAINT ck_export_jobs_state CHECK (state IN ('queued', 'running', 'done', 'failed', 'cancelled', 'pruned')),
    asked_by text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    -- When it may be taken: at once, after a failure later and, by whoever comes after a worker that has died, once that
    -- one's time is over.
    due_at timestamptz NOT NULL DEFAULT now(),
    started_at timestamptz,
    ended_at timestamptz,
    failures int NOT NULL DEFAULT 0,
    done_until timestamptz NOT NULL,
    rows bigint NOT NULL DEFAULT 0,
    bytes bigint NOT NULL DEFAULT 0,
    -- [{"file": ..., "since": ..., "until": ..., "rows": ..., "bytes": ..., "sha256": ...}]
    parts jsonb NOT NULL DEFAULT '[]',
    -- Of the manifest, which has those of the parts.
    sha256 text NOT NULL DEFAULT '',
    error text NOT NULL DEFAULT '',
    -- Of a standing one: from then on its rows are being deleted, so that nobody counts them again.
    deletion_began_at timestamptz,
    CONSTRAINT ck_export_jobs_order CHECK (since < until AND done_until >= since)
);
CREATE INDEX ix_export_jobs_tenant_id_id ON export_jobs (tenant_id, id);
CREATE INDEX ix_export_jobs_waiting ON export_jobs (due_at) WHERE state IN ('queued', 'running');
CREATE UNIQUE INDEX uq_export_jobs_standing ON export_jobs (tenant_id, log, since) WHERE standing;
GRANT SELECT, INSERT ON export_jobs TO admit_app, admit_worker;
GRANT UPDATE (state, due_at, ended_at, failures, error) ON export_jobs TO admit_app;
GRANT UPDATE, DELETE ON export_jobs TO admit_worker;

-- Whose job is to be gone on with next, if any. One is at a time. Of a tenant what somebody asked for comes first, and
-- tenants have the same chance, however many jobs they have.
CREATE FUNCTION waiting_export() RETURNS TABLE (tenant_id uuid, id bigint)
    LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = public, pg_temp AS $$
    SELECT w.tenant_id, w.id FROM (
        SELECT DISTINCT ON (j.tenant_id) j.tenant_id, j.id FROM export_jobs j
        WHERE j.state IN ('queued', 'running') AND j.due_at <= now()
            AND NOT EXISTS (SELECT FROM export_jobs r WHERE r.state = 'running' AND r.due_at > now())
        ORDER BY j.tenant_id, j.standing, j.due_at
    ) w ORDER BY random() LIMIT 1
$$;
REVOKE EXECUTE ON FUNCTION waiting_export() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION waiting_export() TO admit_worker;

-- All sessions that ended, wherever they are by now; an index has those of a time in each part.
CREATE VIEW ended_sessions WITH (security_invoker = true) AS
SELECT
    id, tenant_id, nas_key, session_id, started_at, site_id, nas_id, nas_address, nas_port, mac, identity, framed_ip, framed_ipv6,
    framed_prefix, delegated_prefix, class, cui, updated_at, stopped_at, session_seconds, input_octets, output_octets,
    terminate_cause, flags
FROM session_history
UNION ALL
SELECT
    id, tenant_id, nas_key, session_id, started_at, site_id, nas_id, nas_address, nas_port, mac, identity, framed_ip, framed_ipv6,
    framed_prefix, delegated_prefix, class, cui, updated_at, stopped_at, session_seconds, input_octets, output_octets,
    terminate_cause, flags
FROM sessions WHERE stopped_at IS NOT NULL AND NOT ('stale' = ANY (flags))
UNION ALL
SELECT
    id, tenant_id, nas_key, session_id, started_at, site_id, nas_id, nas_address, nas_port, mac, identity, framed_ip, framed_ipv6,
    framed_prefix, delegated_prefix, class, cui, updated_at, stopped_at, session_seconds, input_octets, output_octets,
    terminate_cause, flags
FROM sessions WHERE stopped_at IS NOT NULL AND 'stale' = ANY (flags);
GRANT SELECT ON ended_sessions TO admit_app, admit_worker;
