-- Who administers: people are global, a membership is a person's role on the platform, on an MSP or on a tenant.
CREATE TABLE people (
    id uuid CONSTRAINT pk_people PRIMARY KEY DEFAULT gen_random_uuid(),
    -- As it is compared: in lower case.
    email text NOT NULL CONSTRAINT uq_people_email UNIQUE
        CONSTRAINT ck_people_email CHECK (email = lower(email) AND email ~ '^[^@\s]{1,64}@[^@\s]{1,190}$'),
    name text NOT NULL DEFAULT '',
    status text NOT NULL DEFAULT 'active' CONSTRAINT ck_people_status CHECK (status IN ('active', 'disabled')),
    -- Argon2id in PHC form; '' where there is none, as of somebody who was invited or who signs in elsewhere.
    password_hash text NOT NULL DEFAULT '',
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now()
);

-- Roles that an MSP or a tenant has made; those that Admit comes with are in nac/accounts/roles.py.
CREATE TABLE custom_roles (
    id uuid CONSTRAINT pk_custom_roles PRIMARY KEY DEFAULT gen_random_uuid(),
    msp_id uuid CONSTRAINT fk_custom_roles_msp_id REFERENCES msps ON DELETE CASCADE,
    tenant_id uuid CONSTRAINT fk_custom_roles_tenant_id REFERENCES tenants ON DELETE CASCADE,
    slug text NOT NULL CONSTRAINT ck_custom_roles_slug CHECK (slug ~ '^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$'),
    name text NOT NULL,
    permissions text[] NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT ck_custom_roles_owner CHECK (num_nonnulls(msp_id, tenant_id) = 1),
    CONSTRAINT uq_custom_roles_msp_id_slug UNIQUE (msp_id, slug),
    CONSTRAINT uq_custom_roles_tenant_id_slug UNIQUE (tenant_id, slug),
    CONSTRAINT uq_custom_roles_msp_id_id UNIQUE (msp_id, id),
    CONSTRAINT uq_custom_roles_tenant_id_id UNIQUE (tenant_id, id)
);

CREATE TABLE memberships (
    id uuid CONSTRAINT pk_memberships PRIMARY KEY DEFAULT gen_random_uuid(),
    person_id uuid NOT NULL CONSTRAINT fk_memberships_person_id REFERENCES people ON DELETE CASCADE,
    -- Neither: of the platform.
    msp_id uuid CONSTRAINT fk_memberships_msp_id REFERENCES msps ON DELETE CASCADE,
    tenant_id uuid CONSTRAINT fk_memberships_tenant_id REFERENCES tenants ON DELETE CASCADE,
    -- The slug of one that Admit comes with, or one of the same MSP's or tenant's own.
    role text,
    custom_role_id uuid,
    -- Of an MSP's tenants those of membership_tenants alone.
    has_chosen boolean NOT NULL DEFAULT false,
    created_by text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT ck_memberships_scope CHECK (num_nonnulls(msp_id, tenant_id) <= 1),
    CONSTRAINT ck_memberships_role CHECK (num_nonnulls(role, custom_role_id) = 1),
    CONSTRAINT ck_memberships_has_chosen CHECK (msp_id IS NOT NULL OR NOT has_chosen),
    CONSTRAINT uq_memberships_person_id UNIQUE NULLS NOT DISTINCT (person_id, msp_id, tenant_id),
    CONSTRAINT fk_memberships_msp_id_custom_role_id FOREIGN KEY (msp_id, custom_role_id)
        REFERENCES custom_roles (msp_id, id),
    CONSTRAINT fk_memberships_tenant_id_custom_role_id FOREIGN KEY (tenant_id, custom_role_id)
        REFERENCES custom_roles (tenant_id, id)
);
CREATE INDEX ix_memberships_msp_id ON memberships (msp_id) WHERE msp_id IS NOT NULL;
CREATE INDEX ix_memberships_tenant_id ON memberships (tenant_id) WHERE tenant_id IS NOT NULL;
CREATE INDEX ix_memberships_custom_role_id ON memberships (custom_role_id) WHERE custom_role_id IS NOT NULL;

CREATE TABLE membership_tenants (
    membership_id uuid NOT NULL CONSTRAINT fk_membership_tenants_membership_id REFERENCES memberships ON DELETE CASCADE,
    tenant_id uuid NOT NULL CONSTRAINT fk_membership_tenants_tenant_id REFERENCES tenants ON DELETE CASCADE,
    CONSTRAINT pk_membership_tenants PRIMARY KEY (membership_id, tenant_id)
);
CREATE INDEX ix_membership_tenants_tenant_id ON membership_tenants (tenant_id);

-- For programs. The secret itself is shown once and is not here.
CREATE TABLE api_tokens (
    id uuid CONSTRAINT pk_api_tokens PRIMARY KEY DEFAULT gen_random_uuid(),
    public_id text NOT NULL CONSTRAINT uq_api_tokens_public_id UNIQUE
        CONSTRAINT ck_api_tokens_public_id CHECK (public_id ~ '^[a-z0-9]{16}$'),
    secret_sha256 bytea NOT NULL,
    name text NOT NULL,
    -- Neither: of the platform.
    msp_id uuid CONSTRAINT fk_api_tokens_msp_id REFERENCES msps ON DELETE CASCADE,
    tenant_id uuid CONSTRAINT fk_api_tokens_tenant_id REFERENCES tenants ON DELETE CASCADE,
    permissions text[] NOT NULL,
    expires_at timestamptz NOT NULL,
    revoked_at timestamptz,
    -- To the minute.
    last_used_at timestamptz,
    last_used_from inet,
    created_by text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT ck_api_tokens_scope CHECK (num_nonnulls(msp_id, tenant_id) <= 1)
);
CREATE INDEX ix_api_tokens_msp_id ON api_tokens (msp_id) WHERE msp_id IS NOT NULL;
CREATE INDEX ix_api_tokens_tenant_id ON api_tokens (tenant_id) WHERE tenant_id IS NOT NULL;

-- Who has signed in, from which browser. The cookie's secret is not here.
CREATE TABLE sign_ins (
    id uuid CONSTRAINT pk_sign_ins PRIMARY KEY DEFAULT gen_random_uuid(),
    public_id text NOT NULL CONSTRAINT uq_sign_ins_public_id UNIQUE
        CONSTRAINT ck_sign_ins_public_id CHECK (public_id ~ '^[a-z0-9]{16}$'),
    secret_sha256 bytea NOT NULL,
    person_id uuid NOT NULL CONSTRAINT fk_sign_ins_person_id REFERENCES people ON DELETE CASCADE,
    -- password, totp, recovery-code, passkey, oidc.
    factors text[] NOT NULL,
    from_address inet,
    user_agent text NOT NULL DEFAULT '',
    expires_at timestamptz NOT NULL,
    ended_at timestamptz,
    -- To the minute.
    last_seen_at timestamptz NOT NULL DEFAULT now(),
    created_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX ix_sign_ins_person_id ON sign_ins (person_id, created_at);
