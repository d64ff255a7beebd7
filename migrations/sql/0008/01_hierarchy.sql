ALTER TABLE certificate_authorities
    ADD COLUMN key_store text NOT NULL DEFAULT 'sealed'
        CONSTRAINT ck_certificate_authorities_key_store CHECK (key_store IN ('sealed', 'pkcs11')),
    -- The name and key of this root, certified by the root before it: who trusts that one finds a way to this one.
    ADD COLUMN cross_der bytea;
GRANT SELECT (cross_der) ON certificate_authorities TO admit_cell;

-- NULL: from the day on which it was issued. Only a server's certificate has another.
ALTER TABLE certificates ADD COLUMN present_from timestamptz;
CREATE INDEX ix_certificates_expiry ON certificates (tenant_id, not_after) WHERE status = 'valid';
CREATE INDEX ix_certificates_tenant_id_common_name ON certificates (tenant_id, common_name text_pattern_ops);

-- What an authority's certificate will say, written before it is signed; `id` will be the authority's.
CREATE TABLE authority_intents (
    id uuid CONSTRAINT pk_authority_intents PRIMARY KEY,
    tenant_id uuid NOT NULL CONSTRAINT fk_authority_intents_tenant_id REFERENCES tenants ON DELETE CASCADE,
    kind text NOT NULL CONSTRAINT ck_authority_intents_kind CHECK (kind IN ('root', 'issuing', 'cross')),
    subject text NOT NULL,
    serial bytea NOT NULL,
    issuer_id uuid,
    key_store text NOT NULL CONSTRAINT ck_authority_intents_key_store CHECK (key_store IN ('sealed', 'pkcs11')),
    created_at timestamptz NOT NULL DEFAULT now(),
    signed_at timestamptz
);
CREATE INDEX ix_authority_intents_tenant_id ON authority_intents (tenant_id);

-- A tenant's own choices; profiles holds what differs from the built-in ones.
CREATE TABLE certificate_settings (
    tenant_id uuid CONSTRAINT pk_certificate_settings PRIMARY KEY
        CONSTRAINT fk_certificate_settings_tenant_id REFERENCES tenants ON DELETE CASCADE,
    profiles jsonb NOT NULL DEFAULT '{}',
    key_store text NOT NULL DEFAULT ''
        CONSTRAINT ck_certificate_settings_key_store CHECK (key_store IN ('', 'sealed', 'pkcs11'))
);

-- A warning is given once: its row comes first.
CREATE TABLE expiry_warnings (
    tenant_id uuid NOT NULL CONSTRAINT fk_expiry_warnings_tenant_id REFERENCES tenants ON DELETE CASCADE,
    -- An authority's or a certificate's.
    subject_id uuid NOT NULL,
    days int NOT NULL,
    warned_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT pk_expiry_warnings PRIMARY KEY (tenant_id, subject_id, days)
);

GRANT SELECT, INSERT, UPDATE ON authority_intents, certificate_settings TO admit_app, admit_worker;
GRANT SELECT, INSERT, UPDATE (warned_at) ON expiry_warnings TO admit_app, admit_worker;
