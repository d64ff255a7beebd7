-- Exports of logs into files. `parts` has all rows before `done_until`.
CREATE TABLE export_jobs (
    id bigint CONSTRAINT pk_export_jobs PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    tenant_id uuid NOT NULL CONSTRAINT fk_export_jobs_tenant_id REFERENCES tenants ON DELETE CASCADE,
    log text NOT NULL
        CONSTRAINT ck_export_jobs_log CHECK (log IN ('auth', 'accounting', 'sessions', 'usage')),
    since timestamptz NOT NULL,
    until timestamptz NOT NULL,
    format text NOT NULL CONSTRAINT ck_export_jobs_format CHECK (format IN ('csv', 'jsonl', 'parquet')),
    -- Automatic, before a day is deleted.
    standing boolean NOT NULL DEFAULT false,
    state text NOT NULL DEFAULT 'queued'
        CONSTRAINT ck_export_jobs_state CHECK (
            state IN ('queued', 'running', 'done', 'failed', 'cancelled', 'pruned')
        ),
    requested_by text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    -- When a worker can take the row: immediately, later after a failure, or after the lease
    -- of a worker that died.
    due_at timestamptz NOT NULL DEFAULT now(),
    started_at timestamptz,
    ended_at timestamptz,
    failures int NOT NULL DEFAULT 0,
    done_until timestamptz NOT NULL,
    rows bigint NOT NULL DEFAULT 0,
    bytes bigint NOT NULL DEFAULT 0,
    -- [{"file": ..., "since": ..., "until": ..., "rows": ..., "bytes": ..., "sha256": ...}]
    parts jsonb NOT NULL DEFAULT '[]',
    -- Of the manifest, which has the hashes of the parts.
    sha256 text NOT NULL DEFAULT '',
    error text NOT NULL DEFAULT '',
    -- Of a standing export: start of the deletion of its rows. They are not counted again.
    deletion_began_at timestamptz,
    -- Of a standing export: its files have the rows of all transactions before
    -- `rows_before`. `origin` is the database, because a restored database counts
    -- transactions from the start.
    rows_before bigint,
    origin text NOT NULL DEFAULT '',
    -- Since then the files are the only copy of the rows.
    rows_gone_at timestamptz,
    CONSTRAINT ck_export_jobs_order CHECK (since < until AND done_until >= since)
);
CREATE INDEX ix_export_jobs_tenant_id_id ON export_jobs (tenant_id, id);
CREATE INDEX ix_export_jobs_waiting ON export_jobs (due_at) WHERE state IN ('queued', 'running');
CREATE UNIQUE INDEX uq_export_jobs_standing ON export_jobs (tenant_id, log, since) WHERE standing;
GRANT SELECT, INSERT ON export_jobs TO admit_app;
GRANT SELECT, INSERT, UPDATE, DELETE ON export_jobs TO admit_worker;
GRANT UPDATE (standing, state, due_at, ended_at, failures, error) ON export_jobs TO admit_app;
