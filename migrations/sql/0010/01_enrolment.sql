-- One-time secrets that a device or person shows in order to be given a certificate. The secret itself is not here.
CREATE TABLE enrolment_secrets (
    id uuid CONSTRAINT pk_enrolment_secrets PRIMARY KEY DEFAULT gen_random_uuid(),
    tenant_id uuid NOT NULL CONSTRAINT fk_enrolment_secrets_tenant_id REFERENCES tenants ON DELETE CASCADE,
    public_id text NOT NULL CONSTRAINT uq_enrolment_secrets_public_id UNIQUE
        CONSTRAINT ck_enrolment_secrets_public_id CHECK (public_id ~ '^[a-z0-9]{16,64}$'),
    kind text NOT NULL CONSTRAINT ck_enrolment_secrets_kind CHECK (kind IN ('est', 'scep', 'link')),
    name text,
    secret_sha256 bytea NOT NULL,
    profile text NOT NULL,
    common_name text,
    sans text[] NOT NULL DEFAULT '{}',
    endpoint_id uuid,
    user_id uuid,
    owner text NOT NULL DEFAULT '',
    ssid text NOT NULL DEFAULT '',
    most_uses int NOT NULL DEFAULT 1 CONSTRAINT ck_enrolment_secrets_most_uses CHECK (most_uses > 0),
    uses int NOT NULL DEFAULT 0 CONSTRAINT ck_enrolment_secrets_uses CHECK (uses BETWEEN 0 AND most_uses),
    expires_at timestamptz NOT NULL,
    revoked_at timestamptz,
    last_used_at timestamptz,
    created_by text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT uq_enrolment_secrets_tenant_id_id UNIQUE (tenant_id, id),
    CONSTRAINT uq_enrolment_secrets_tenant_id_name UNIQUE (tenant_id, name),
    -- What was meant for a device or user that is gone is no good for another.
    CONSTRAINT fk_enrolment_secrets_tenant_id_endpoint_id FOREIGN KEY (tenant_id, endpoint_id)
        REFERENCES endpoints (tenant_id, id) ON DELETE CASCADE,
    CONSTRAINT fk_enrolment_secrets_tenant_id_user_id FOREIGN KEY (tenant_id, user_id)
        REFERENCES users (tenant_id, id) ON DELETE CASCADE
);

-- A link names no tenant: its transaction sees the secret that it names and nothing else.
CREATE FUNCTION scope_enrolment_id() RETURNS text LANGUAGE sql STABLE PARALLEL SAFE AS
    $$ SELECT nullif(current_setting('admit.enrolment_id', true), '') $$;
CREATE POLICY enrolment_scope ON enrolment_secrets FOR SELECT TO admit_app USING (public_id = scope_enrolment_id());

REVOKE EXECUTE ON FUNCTION scope_enrolment_id() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION scope_enrolment_id() TO admit_app;
GRANT SELECT, INSERT, UPDATE, DELETE ON enrolment_secrets TO admit_app, admit_worker;

-- A key is certified once, but for renewals: SHA-256 of its SubjectPublicKeyInfo.
ALTER TABLE certificates ADD COLUMN public_key_sha256 bytea;
CREATE INDEX ix_certificates_tenant_id_public_key_sha256 ON certificates (tenant_id, public_key_sha256);

-- What a certificate was the warrant for is taken back with it.
ALTER TABLE certificates
    ADD COLUMN renews_id uuid,
    ADD CONSTRAINT fk_certificates_tenant_id_renews_id FOREIGN KEY (tenant_id, renews_id)
        REFERENCES certificates (tenant_id, id) ON DELETE SET NULL (renews_id);
CREATE INDEX ix_certificates_renews_id ON certificates (renews_id);

-- Whoever sends the same request again, as the answer was lost, is given the same certificate.
ALTER TABLE certificates
    ADD COLUMN secret_id uuid,
    ADD CONSTRAINT fk_certificates_tenant_id_secret_id FOREIGN KEY (tenant_id, secret_id)
        REFERENCES enrolment_secrets (tenant_id, id) ON DELETE SET NULL (secret_id);
CREATE INDEX ix_certificates_secret_id ON certificates (secret_id);

-- Whether a renewed certificate may keep its key.
ALTER TABLE tenants ADD COLUMN renewal_keeps_key boolean NOT NULL DEFAULT false;

-- Who terminates TLS for all tenants at once accepts certificates of any of their authorities, and asks later whose it is.
CREATE FUNCTION enrolment_authorities() RETURNS TABLE (id uuid, certificate_der bytea)
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
    SELECT a.id, a.certificate_der FROM certificate_authorities a
    WHERE a.kind IN ('root', 'issuing') AND a.status <> 'revoked'
$$;
REVOKE EXECUTE ON FUNCTION enrolment_authorities() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION enrolment_authorities() TO admit_app;
