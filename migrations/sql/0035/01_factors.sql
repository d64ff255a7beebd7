-- When the person last proved, in this browser, who it is: what changes an account asks for it anew.
ALTER TABLE sign_ins ADD COLUMN confirmed_at timestamptz NOT NULL DEFAULT now();

-- What people sign in with beside a password. Nobody but the person sees them; no owner of a membership does.
CREATE TABLE totps (
    person_id uuid CONSTRAINT pk_totps PRIMARY KEY CONSTRAINT fk_totps_person_id REFERENCES people ON DELETE CASCADE,
    secret_sealed bytea NOT NULL,
    -- The step (RFC 6238 4.2) of the last code that was used: no code is taken twice.
    last_step bigint NOT NULL DEFAULT 0,
    -- NULL until a first code has shown that the device has the secret.
    confirmed_at timestamptz,
    created_at timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE passkeys (
    id uuid CONSTRAINT pk_passkeys PRIMARY KEY DEFAULT gen_random_uuid(),
    person_id uuid NOT NULL CONSTRAINT fk_passkeys_person_id REFERENCES people ON DELETE CASCADE,
    -- The authenticator's own name of it, base64url.
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

CREATE TABLE recovery_codes (
    id uuid CONSTRAINT pk_recovery_codes PRIMARY KEY DEFAULT gen_random_uuid(),
    person_id uuid NOT NULL CONSTRAINT fk_recovery_codes_person_id REFERENCES people ON DELETE CASCADE,
    -- Of 80 random bits.
    code_sha256 bytea NOT NULL,
    used_at timestamptz,
    created_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT uq_recovery_codes_person_id_code_sha256 UNIQUE (person_id, code_sha256)
);

-- Whoever has it sets the person's password, once.
CREATE TABLE password_links (
    id uuid CONSTRAINT pk_password_links PRIMARY KEY DEFAULT gen_random_uuid(),
    public_id text NOT NULL CONSTRAINT uq_password_links_public_id UNIQUE
        CONSTRAINT ck_password_links_public_id CHECK (public_id ~ '^[a-z0-9]{16}$'),
    secret_sha256 bytea NOT NULL,
    person_id uuid NOT NULL CONSTRAINT fk_password_links_person_id REFERENCES people ON DELETE CASCADE,
    created_by text NOT NULL,
    expires_at timestamptz NOT NULL,
    used_at timestamptz,
    created_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX ix_password_links_person_id ON password_links (person_id);

-- What the platform, an MSP or a tenant asks of those who come in.
CREATE TABLE sign_in_rules (
    id uuid CONSTRAINT pk_sign_in_rules PRIMARY KEY DEFAULT gen_random_uuid(),
    msp_id uuid CONSTRAINT fk_sign_in_rules_msp_id REFERENCES msps ON DELETE CASCADE,
    tenant_id uuid CONSTRAINT fk_sign_in_rules_tenant_id REFERENCES tenants ON DELETE CASCADE,
    two_factors boolean NOT NULL DEFAULT false,
    updated_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT ck_sign_in_rules_owner CHECK (num_nonnulls(msp_id, tenant_id) <= 1),
    CONSTRAINT uq_sign_in_rules_msp_id_tenant_id UNIQUE NULLS NOT DISTINCT (msp_id, tenant_id)
);

DO $$
DECLARE
    own name;
BEGIN
    FOREACH own IN ARRAY ARRAY['totps', 'passkeys', 'recovery_codes', 'password_links']::name[] LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', own);
        EXECUTE format(
            'CREATE POLICY person_scope ON %I TO admit_app '
            'USING (person_id = scope_person_id()) WITH CHECK (person_id = scope_person_id())',
            own
        );
        EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON %I TO admit_app', own);
    END LOOP;
END
$$;
-- Found by what was shown.
CREATE POLICY credential_scope ON passkeys FOR SELECT TO admit_app USING (credential_id = scope_credential_id());
CREATE POLICY credential_scope ON password_links FOR SELECT TO admit_app USING (public_id = scope_credential_id());

ALTER TABLE sign_in_rules ENABLE ROW LEVEL SECURITY;
CREATE POLICY owner_scope ON sign_in_rules TO admit_app
    USING (msp_id = scope_msp_id() OR tenant_id = scope_tenant_id() OR scope_is_platform())
    WITH CHECK (msp_id = scope_msp_id() OR tenant_id = scope_tenant_id() OR scope_is_platform());
GRANT SELECT, INSERT, UPDATE ON sign_in_rules TO admit_app;

-- Whether a place asks for two factors: the platform, its MSP or the tenant itself. In any scope.
CREATE FUNCTION wants_two_factors(wanted_msp uuid, wanted_tenant uuid) RETURNS boolean
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
    SELECT EXISTS (
        SELECT FROM sign_in_rules r
        WHERE r.two_factors AND (
            num_nonnulls(r.msp_id, r.tenant_id) = 0 OR r.msp_id = wanted_msp OR r.tenant_id = wanted_tenant
        )
    )
$$;
REVOKE EXECUTE ON FUNCTION wants_two_factors(uuid, uuid) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION wants_two_factors(uuid, uuid) TO admit_app;
