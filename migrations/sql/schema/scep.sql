-- The certificate of each transaction. A repeated request gets the same one.
CREATE TABLE scep_transactions (
    id uuid CONSTRAINT pk_scep_transactions PRIMARY KEY DEFAULT gen_random_uuid(),
    tenant_id uuid NOT NULL CONSTRAINT fk_scep_transactions_tenant_id REFERENCES tenants ON DELETE CASCADE,
    transaction_id text NOT NULL
        CONSTRAINT ck_scep_transactions_transaction_id CHECK (length(transaction_id) BETWEEN 1 AND 255),
    certificate_id uuid NOT NULL,
    -- The certificate that signed the request. NULL for a first request, with a challenge.
    renews_id uuid,
    created_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT uq_scep_transactions_tenant_id_certificate_id UNIQUE (tenant_id, certificate_id),
    CONSTRAINT fk_scep_transactions_tenant_id_certificate_id FOREIGN KEY (tenant_id, certificate_id)
        REFERENCES certificates (tenant_id, id) ON DELETE CASCADE,
    CONSTRAINT fk_scep_transactions_tenant_id_renews_id FOREIGN KEY (tenant_id, renews_id)
        REFERENCES certificates (tenant_id, id) ON DELETE CASCADE
);
CREATE INDEX ix_scep_transactions_tenant_id_transaction_id ON scep_transactions (tenant_id, transaction_id);
CREATE INDEX ix_scep_transactions_tenant_id_created_at ON scep_transactions (tenant_id, created_at);
GRANT SELECT, INSERT, UPDATE, DELETE ON scep_transactions TO admit_app, admit_worker;
GRANT SELECT, INSERT ON scep_transactions TO admit_public;

-- Verifier of challenges that Admit did not create. One for each tenant.
CREATE TABLE scep_webhooks (
    tenant_id uuid
        CONSTRAINT pk_scep_webhooks PRIMARY KEY
        CONSTRAINT fk_scep_webhooks_tenant_id REFERENCES tenants ON DELETE CASCADE,
    settings jsonb NOT NULL,
    secret_sealed bytea NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT ck_scep_webhooks_settings CHECK (jsonb_typeof(settings) = 'object')
);
GRANT SELECT, INSERT, UPDATE, DELETE ON scep_webhooks TO admit_app, admit_worker;
GRANT SELECT ON scep_webhooks TO admit_public;
