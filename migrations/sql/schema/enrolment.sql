-- One-time secrets that authorise a device or person to enrol. The secret itself is not stored.
CREATE TABLE enrolment_secrets (
    id uuid CONSTRAINT pk_enrolment_secrets PRIMARY KEY DEFAULT gen_random_uuid(),
    tenant_id uuid NOT NULL CONSTRAINT fk_enrolment_secrets_tenant_id REFERENCES tenants ON DELETE CASCADE,
    public_id text NOT NULL
        CONSTRAINT uq_enrolment_secrets_public_id UNIQUE
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
    -- A secret for a deleted device or user is deleted, and never valid for another.
    CONSTRAINT fk_enrolment_secrets_tenant_id_endpoint_id FOREIGN KEY (tenant_id, endpoint_id)
        REFERENCES endpoints (tenant_id, id) ON DELETE CASCADE,
    CONSTRAINT fk_enrolment_secrets_tenant_id_user_id FOREIGN KEY (tenant_id, user_id)
        REFERENCES users (tenant_id, id) ON DELETE CASCADE
);
GRANT SELECT, INSERT, UPDATE, DELETE ON enrolment_secrets TO admit_app, admit_worker;
GRANT SELECT ON enrolment_secrets TO admit_public;
GRANT UPDATE (uses, last_used_at) ON enrolment_secrets TO admit_public;
