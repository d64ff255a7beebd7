CREATE TABLE certificate_authorities (
    id uuid CONSTRAINT pk_certificate_authorities PRIMARY KEY DEFAULT gen_random_uuid(),
    tenant_id uuid NOT NULL
        CONSTRAINT fk_certificate_authorities_tenant_id REFERENCES tenants ON DELETE CASCADE,
    kind text NOT NULL
        CONSTRAINT ck_certificate_authorities_kind CHECK (kind IN ('root', 'issuing', 'external')),
    name text NOT NULL,
    subject text NOT NULL,
    certificate_der bytea NOT NULL,
    key_sealed bytea,
    key_id bytea NOT NULL,
    status text NOT NULL DEFAULT 'active'
        CONSTRAINT ck_certificate_authorities_status CHECK (status IN ('active', 'retired', 'revoked')),
    not_before timestamptz NOT NULL,
    not_after timestamptz NOT NULL,
    issuer_id uuid,
    key_store text NOT NULL DEFAULT 'sealed'
        CONSTRAINT ck_certificate_authorities_key_store CHECK (key_store IN ('sealed', 'pkcs11')),
    -- Name and key of this root, certified by the previous root. Clients that trust the
    -- previous root can verify this one.
    cross_der bytea,
    revoked_at timestamptz,
    revocation_reason text NOT NULL DEFAULT '',
    CONSTRAINT uq_certificate_authorities_tenant_id_id UNIQUE (tenant_id, id),
    CONSTRAINT fk_certificate_authorities_tenant_id_issuer_id FOREIGN KEY (tenant_id, issuer_id)
        REFERENCES certificate_authorities (tenant_id, id)
);
CREATE INDEX ix_certificate_authorities_tenant_id_subject ON certificate_authorities (tenant_id, subject);
-- In page order.
CREATE INDEX ix_certificate_authorities_tenant_id_not_before ON certificate_authorities (tenant_id, not_before, id);
CREATE INDEX ix_certificate_authorities_tenant_id_not_after ON certificate_authorities (tenant_id, not_after, id);
CREATE INDEX ix_certificate_authorities_tenant_id_name ON certificate_authorities (tenant_id, name, id);
GRANT SELECT, INSERT, UPDATE, DELETE ON certificate_authorities TO admit_app, admit_worker;
GRANT SELECT ON certificate_authorities TO admit_public;
-- All columns except key_sealed. A cell presents certificates, but never signs.
GRANT SELECT (
    id, tenant_id, kind, name, subject, certificate_der, key_id, status, not_before, not_after,
    issuer_id, cross_der
) ON certificate_authorities TO admit_cell;

CREATE TABLE certificates (
    id uuid CONSTRAINT pk_certificates PRIMARY KEY DEFAULT gen_random_uuid(),
    tenant_id uuid NOT NULL CONSTRAINT fk_certificates_tenant_id REFERENCES tenants ON DELETE CASCADE,
    authority_id uuid NOT NULL,
    -- RFC 5280 4.1.2.2: at most 20 octets.
    serial bytea NOT NULL
        CONSTRAINT ck_certificates_serial CHECK (
            length(serial) BETWEEN 1 AND 20 AND get_byte(serial, 0) <> 0
        ),
    profile text NOT NULL,
    common_name text NOT NULL,
    subject text NOT NULL,
    certificate_der bytea,
    key_sealed bytea,
    status text NOT NULL DEFAULT 'intended'
        CONSTRAINT ck_certificates_status CHECK (
            status IN ('intended', 'abandoned', 'valid', 'suspended', 'revoked')
        ),
    revoked_at timestamptz,
    revocation_reason text NOT NULL DEFAULT '',
    not_before timestamptz NOT NULL,
    not_after timestamptz NOT NULL,
    endpoint_id uuid,
    user_id uuid,
    created_at timestamptz NOT NULL DEFAULT now(),
    -- Start of use for a server's certificate. NULL: from the day of issue.
    present_from timestamptz,
    -- SHA-256 of the SubjectPublicKeyInfo. A key is certified once, except in renewals.
    public_key_sha256 bytea,
    -- A renewal is revoked with the certificate that authorised it.
    renews_id uuid,
    -- The enrolment secret of the request. A repeated request gets the same certificate.
    secret_id uuid,
    -- In lower case. A column, because row-level security keeps lower() from using an index:
    -- it is not leakproof.
    common_name_key text NOT NULL GENERATED ALWAYS AS (lower(common_name)) STORED,
    CONSTRAINT uq_certificates_tenant_id_serial UNIQUE (tenant_id, serial),
    CONSTRAINT uq_certificates_tenant_id_id UNIQUE (tenant_id, id),
    CONSTRAINT fk_certificates_tenant_id_authority_id FOREIGN KEY (tenant_id, authority_id)
        REFERENCES certificate_authorities (tenant_id, id),
    CONSTRAINT fk_certificates_tenant_id_endpoint_id FOREIGN KEY (tenant_id, endpoint_id)
        REFERENCES endpoints (tenant_id, id) ON DELETE SET NULL (endpoint_id),
    CONSTRAINT fk_certificates_tenant_id_user_id FOREIGN KEY (tenant_id, user_id)
        REFERENCES users (tenant_id, id) ON DELETE SET NULL (user_id),
    -- Deferrable, because a tenant file lists its certificates in no order. The import
    -- checks the references at its end.
    CONSTRAINT fk_certificates_tenant_id_renews_id FOREIGN KEY (tenant_id, renews_id)
        REFERENCES certificates (tenant_id, id) ON DELETE SET NULL (renews_id) DEFERRABLE,
    CONSTRAINT fk_certificates_tenant_id_secret_id FOREIGN KEY (tenant_id, secret_id)
        REFERENCES enrolment_secrets (tenant_id, id) ON DELETE SET NULL (secret_id),
    CONSTRAINT ck_certificates_signed CHECK (
        status IN ('intended', 'abandoned') OR certificate_der IS NOT NULL
    )
);
CREATE INDEX ix_certificates_endpoint_id ON certificates (endpoint_id);
CREATE INDEX ix_certificates_user_id ON certificates (user_id);
CREATE INDEX ix_certificates_tenant_id_common_name ON certificates (tenant_id, common_name text_pattern_ops);
-- OCSP looks up one certificate.
CREATE INDEX ix_certificates_authority_id_serial ON certificates (authority_id, serial);
CREATE INDEX ix_certificates_tenant_id_public_key_sha256 ON certificates (tenant_id, public_key_sha256);
CREATE INDEX ix_certificates_renews_id ON certificates (renews_id);
CREATE INDEX ix_certificates_secret_id ON certificates (secret_id);
-- Revocation lists read these.
CREATE INDEX ix_certificates_revoked ON certificates (authority_id)
    WHERE status IN ('abandoned', 'suspended', 'revoked');
CREATE INDEX ix_certificates_intended ON certificates (tenant_id, created_at) WHERE status = 'intended';
CREATE INDEX ix_certificates_lately_refused ON certificates (tenant_id, revoked_at)
    WHERE status IN ('suspended', 'revoked');
CREATE INDEX ix_certificates_tenant_id_not_before_serial ON certificates (tenant_id, not_before, serial);
CREATE INDEX ix_certificates_tenant_id_not_after_serial ON certificates (tenant_id, not_after, serial);
CREATE INDEX ix_certificates_tenant_id_common_name_key_serial ON certificates (tenant_id, common_name_key, serial);
-- The search across tenants finds the start of a name, whatever the collation of the database.
CREATE INDEX ix_certificates_tenant_id_common_name_prefix
    ON certificates (tenant_id, common_name_key text_pattern_ops);
-- Each new certificate requires the names of the tenant's RADIUS servers: few among very many
-- certificates.
CREATE INDEX ix_certificates_of_servers ON certificates (tenant_id, not_after) WHERE profile = 'eap-server';
GRANT SELECT, INSERT, UPDATE, DELETE ON certificates TO admit_app, admit_worker;
GRANT SELECT, INSERT ON certificates TO admit_public;
GRANT SELECT ON certificates TO admit_cell;
GRANT UPDATE (certificate_der, key_sealed, status, public_key_sha256) ON certificates TO admit_public;

-- Content of an authority's certificate, stored before the signature. `id` becomes the
-- authority's id.
CREATE TABLE authority_intents (
    id uuid CONSTRAINT pk_authority_intents PRIMARY KEY,
    tenant_id uuid NOT NULL CONSTRAINT fk_authority_intents_tenant_id REFERENCES tenants ON DELETE CASCADE,
    kind text NOT NULL CONSTRAINT ck_authority_intents_kind CHECK (kind IN ('root', 'issuing', 'cross')),
    subject text NOT NULL,
    serial bytea NOT NULL,
    issuer_id uuid,
    key_store text NOT NULL
        CONSTRAINT ck_authority_intents_key_store CHECK (key_store IN ('sealed', 'pkcs11')),
    created_at timestamptz NOT NULL DEFAULT now(),
    signed_at timestamptz,
    -- Only of a cross-certificate. It is revoked with the authority that it certifies.
    revoked_at timestamptz,
    revocation_reason text NOT NULL DEFAULT '',
    abandoned_at timestamptz,
    -- Names in the first server certificate below the authority. Another process that
    -- completes the work needs them.
    server_names text[] NOT NULL DEFAULT '{}'
);
CREATE INDEX ix_authority_intents_tenant_id ON authority_intents (tenant_id);
CREATE INDEX ix_authority_intents_open ON authority_intents (tenant_id, created_at)
    WHERE signed_at IS NULL AND abandoned_at IS NULL;
GRANT SELECT, INSERT, UPDATE ON authority_intents TO admit_app, admit_worker;
GRANT SELECT ON authority_intents TO admit_public;

-- A tenant's settings. `profiles` has the differences from the built-in profiles.
CREATE TABLE certificate_settings (
    tenant_id uuid
        CONSTRAINT pk_certificate_settings PRIMARY KEY
        CONSTRAINT fk_certificate_settings_tenant_id REFERENCES tenants ON DELETE CASCADE,
    profiles jsonb NOT NULL DEFAULT '{}',
    key_store text NOT NULL DEFAULT ''
        CONSTRAINT ck_certificate_settings_key_store CHECK (key_store IN ('', 'sealed', 'pkcs11')),
    CONSTRAINT ck_certificate_settings_profiles CHECK (jsonb_typeof(profiles) = 'object')
);
GRANT SELECT, INSERT, UPDATE ON certificate_settings TO admit_app, admit_worker;
GRANT SELECT ON certificate_settings TO admit_public;

-- Warnings are sent once: the row comes first.
CREATE TABLE expiry_warnings (
    tenant_id uuid NOT NULL CONSTRAINT fk_expiry_warnings_tenant_id REFERENCES tenants ON DELETE CASCADE,
    -- Id of an authority or a certificate.
    subject_id uuid NOT NULL,
    days int NOT NULL,
    warned_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT pk_expiry_warnings PRIMARY KEY (tenant_id, subject_id, days)
);
GRANT SELECT, INSERT ON expiry_warnings TO admit_app, admit_worker;
GRANT UPDATE (warned_at) ON expiry_warnings TO admit_app, admit_worker;

-- Authorities and certificates that need renewal. A certificate drops out when a later one has
-- the same name and profile. Row-level security of the caller applies.
CREATE VIEW expiring WITH (security_invoker = true) AS
SELECT a.tenant_id, 'authority' AS kind, a.id, '' AS serial, a.name, a.kind AS profile, a.not_before, a.not_after
FROM certificate_authorities a
WHERE a.status = 'active' OR (a.status = 'retired' AND a.kind = 'root')
UNION ALL
SELECT
    c.tenant_id, CASE WHEN c.profile IN ('eap-server', 'radsec-server') THEN 'server' ELSE 'client' END, c.id,
    encode(c.serial, 'hex'), c.common_name, c.profile, c.not_before, c.not_after
FROM certificates c
WHERE c.status = 'valid'
    AND c.profile IN ('eap-server', 'radsec-server', 'eap-client-user', 'eap-client-device', 'radsec-nas')
    AND NOT EXISTS (
        SELECT FROM certificates later
        WHERE later.tenant_id = c.tenant_id AND later.common_name = c.common_name AND later.profile = c.profile
            AND later.status = 'valid' AND later.not_after > c.not_after
    );
GRANT SELECT ON expiring TO admit_app, admit_worker;
