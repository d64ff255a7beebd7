CREATE TABLE mails (
    id uuid CONSTRAINT pk_mails PRIMARY KEY,
    -- NULL for a mail of the platform.
    tenant_id uuid CONSTRAINT fk_mails_tenant_id REFERENCES tenants ON DELETE CASCADE,
    key text NOT NULL CONSTRAINT uq_mails_key UNIQUE,
    template text NOT NULL,
    recipient text NOT NULL,
    values_sealed bytea,
    state text NOT NULL DEFAULT 'queued'
        CONSTRAINT ck_mails_state CHECK (state IN ('queued', 'sent', 'failed')),
    due_at timestamptz NOT NULL DEFAULT now(),
    attempts int NOT NULL DEFAULT 0,
    error text NOT NULL DEFAULT '',
    ended_at timestamptz,
    created_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX ix_mails_waiting ON mails (due_at) WHERE state = 'queued';
CREATE INDEX ix_mails_recipient_created_at ON mails (recipient, created_at);
CREATE INDEX ix_mails_tenant_id ON mails (tenant_id) WHERE tenant_id IS NOT NULL;
GRANT SELECT, INSERT ON mails TO admit_app;
GRANT SELECT, INSERT, UPDATE, DELETE ON mails TO admit_worker;
