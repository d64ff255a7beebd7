-- The OpenID Connect provider of an MSP or a tenant. It authenticates people for this owner
-- only.
CREATE TABLE sign_ons (
    id uuid CONSTRAINT pk_sign_ons PRIMARY KEY DEFAULT gen_random_uuid(),
    msp_id uuid CONSTRAINT fk_sign_ons_msp_id REFERENCES msps ON DELETE CASCADE,
    tenant_id uuid CONSTRAINT fk_sign_ons_tenant_id REFERENCES tenants ON DELETE CASCADE,
    -- Format: nac.accounts.sign_ons.settings.
    settings jsonb NOT NULL,
    secret_sealed bytea NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT ck_sign_ons_owner CHECK (num_nonnulls(msp_id, tenant_id) = 1),
    CONSTRAINT uq_sign_ons_msp_id_tenant_id UNIQUE NULLS NOT DISTINCT (msp_id, tenant_id)
);
ALTER TABLE sign_ins ADD CONSTRAINT fk_sign_ins_sign_on_id
    FOREIGN KEY (sign_on_id) REFERENCES sign_ons ON DELETE CASCADE;
GRANT SELECT, INSERT, UPDATE, DELETE ON sign_ons TO admit_app;
GRANT SELECT (id, msp_id, tenant_id, settings) ON sign_ons TO admit_worker;

-- The person behind each subject of a provider. If the provider reassigns an email address, the
-- new subject is a different person.
CREATE TABLE sign_on_links (
    sign_on_id uuid NOT NULL CONSTRAINT fk_sign_on_links_sign_on_id REFERENCES sign_ons ON DELETE CASCADE,
    subject text NOT NULL,
    person_id uuid NOT NULL CONSTRAINT fk_sign_on_links_person_id REFERENCES people ON DELETE CASCADE,
    created_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT pk_sign_on_links PRIMARY KEY (sign_on_id, subject),
    CONSTRAINT uq_sign_on_links_sign_on_id_person_id UNIQUE (sign_on_id, person_id)
);
CREATE INDEX ix_sign_on_links_person_id ON sign_on_links (person_id);
GRANT SELECT, INSERT, UPDATE, DELETE ON sign_on_links TO admit_app;

-- Second factors and passkeys are visible only to their person, never to the owner of a
-- membership.
CREATE TABLE totps (
    person_id uuid
        CONSTRAINT pk_totps PRIMARY KEY
        CONSTRAINT fk_totps_person_id REFERENCES people ON DELETE CASCADE,
    secret_sealed bytea NOT NULL,
    -- Step (RFC 6238 4.2) of the last code. No code is accepted twice.
    last_step bigint NOT NULL DEFAULT 0,
    -- NULL until a first code proves that the device has the secret.
    confirmed_at timestamptz,
    created_at timestamptz NOT NULL DEFAULT now()
);
GRANT SELECT, INSERT, UPDATE, DELETE ON totps TO admit_app;

CREATE TABLE passkeys (
    id uuid CONSTRAINT pk_passkeys PRIMARY KEY DEFAULT gen_random_uuid(),
    person_id uuid NOT NULL CONSTRAINT fk_passkeys_person_id REFERENCES people ON DELETE CASCADE,
    -- The authenticator's id, in base64url.
    credential_id text NOT NULL CONSTRAINT uq_passkeys_credential_id UNIQUE,
    -- COSE.
    public_key bytea NOT NULL,
    sign_count bigint NOT NULL,
    name text NOT NULL,
    backed_up boolean NOT NULL,
    last_used_at timestamptz,
    created_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX ix_passkeys_person_id ON passkeys (person_id);
GRANT SELECT, INSERT, UPDATE, DELETE ON passkeys TO admit_app;

CREATE TABLE recovery_codes (
    id uuid CONSTRAINT pk_recovery_codes PRIMARY KEY DEFAULT gen_random_uuid(),
    person_id uuid NOT NULL CONSTRAINT fk_recovery_codes_person_id REFERENCES people ON DELETE CASCADE,
    -- Of 80 random bits.
    code_sha256 bytea NOT NULL,
    used_at timestamptz,
    created_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT uq_recovery_codes_person_id_code_sha256 UNIQUE (person_id, code_sha256)
);
GRANT SELECT, INSERT, UPDATE, DELETE ON recovery_codes TO admit_app;

-- Links that set a person's password once.
CREATE TABLE password_links (
    id uuid CONSTRAINT pk_password_links PRIMARY KEY DEFAULT gen_random_uuid(),
    public_id text NOT NULL
        CONSTRAINT uq_password_links_public_id UNIQUE
        CONSTRAINT ck_password_links_public_id CHECK (public_id ~ '^[a-z0-9]{16}$'),
    secret_sha256 bytea NOT NULL,
    person_id uuid NOT NULL CONSTRAINT fk_password_links_person_id REFERENCES people ON DELETE CASCADE,
    created_by text NOT NULL,
    expires_at timestamptz NOT NULL,
    used_at timestamptz,
    created_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX ix_password_links_person_id ON password_links (person_id);
CREATE INDEX ix_password_links_expires_at ON password_links (expires_at);
GRANT SELECT, INSERT, UPDATE, DELETE ON password_links TO admit_app, admit_worker;

-- Requirements of the platform, an MSP or a tenant for sign-in.
CREATE TABLE sign_in_rules (
    id uuid CONSTRAINT pk_sign_in_rules PRIMARY KEY DEFAULT gen_random_uuid(),
    msp_id uuid CONSTRAINT fk_sign_in_rules_msp_id REFERENCES msps ON DELETE CASCADE,
    tenant_id uuid CONSTRAINT fk_sign_in_rules_tenant_id REFERENCES tenants ON DELETE CASCADE,
    two_factors boolean NOT NULL DEFAULT false,
    updated_at timestamptz NOT NULL DEFAULT now(),
    -- Members must use the owner's provider, except for one local account.
    sign_on_only boolean NOT NULL DEFAULT false,
    local_person_id uuid CONSTRAINT fk_sign_in_rules_local_person_id REFERENCES people ON DELETE SET NULL,
    CONSTRAINT ck_sign_in_rules_owner CHECK (num_nonnulls(msp_id, tenant_id) <= 1),
    CONSTRAINT uq_sign_in_rules_msp_id_tenant_id UNIQUE NULLS NOT DISTINCT (msp_id, tenant_id),
    CONSTRAINT ck_sign_in_rules_sign_on_only CHECK (NOT sign_on_only OR num_nonnulls(msp_id, tenant_id) = 1)
);
CREATE INDEX ix_sign_in_rules_local_person_id ON sign_in_rules (local_person_id)
    WHERE local_person_id IS NOT NULL;
GRANT SELECT, INSERT, UPDATE ON sign_in_rules TO admit_app;

-- Number of attempts, by SHA-256 of subject and source. Only functions/sign_in.sql reads and
-- writes it.
CREATE TABLE sign_in_attempts (
    key bytea CONSTRAINT pk_sign_in_attempts PRIMARY KEY,
    count int NOT NULL DEFAULT 0,
    last_at timestamptz NOT NULL,
    blocked_until timestamptz
);
CREATE INDEX ix_sign_in_attempts_last_at ON sign_in_attempts (last_at);
GRANT SELECT, DELETE ON sign_in_attempts TO admit_worker;

-- One-time values that were used.
CREATE TABLE spent_challenges (
    digest bytea CONSTRAINT pk_spent_challenges PRIMARY KEY,
    expires_at timestamptz NOT NULL
);
CREATE INDEX ix_spent_challenges_expires_at ON spent_challenges (expires_at);
GRANT SELECT, DELETE ON spent_challenges TO admit_worker;

-- Failed attempts by hour, reason and source. At most 20 rows per hour and subject, and one more
-- for each reason.
CREATE TABLE sign_in_failures (
    id bigint CONSTRAINT pk_sign_in_failures PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    -- The person or single sign-on. Zeros for an unknown address. No foreign key, so that
    -- all attempts take the same time.
    subject_id uuid NOT NULL,
    hour timestamptz NOT NULL,
    reason text NOT NULL,
    -- Group of addresses that counts as one. NULL for the remaining sources, once there are
    -- many.
    source inet,
    count int NOT NULL DEFAULT 0,
    first_at timestamptz NOT NULL,
    last_at timestamptz NOT NULL,
    -- Of the last attempt.
    address inet,
    request_id text,
    user_agent text NOT NULL DEFAULT '',
    -- How many of them the audit log has, and when it gets the others.
    audited int NOT NULL DEFAULT 0,
    audited_at timestamptz,
    audit_due_at timestamptz,
    CONSTRAINT uq_sign_in_failures_subject_id UNIQUE NULLS NOT DISTINCT (subject_id, hour, reason, source)
);
CREATE INDEX ix_sign_in_failures_audit_due_at ON sign_in_failures (audit_due_at) WHERE audit_due_at IS NOT NULL;
CREATE INDEX ix_sign_in_failures_last_at ON sign_in_failures (last_at);
GRANT SELECT ON sign_in_failures TO admit_app;
GRANT SELECT, UPDATE, DELETE ON sign_in_failures TO admit_worker;
