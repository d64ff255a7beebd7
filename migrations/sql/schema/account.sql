-- Accounts of administrators. A person is global. A membership is a person's role on the
-- platform, an MSP or a tenant.
CREATE TABLE people (
    id uuid CONSTRAINT pk_people PRIMARY KEY DEFAULT gen_random_uuid(),
    -- In lower case, as comparisons use it.
    email text NOT NULL
        CONSTRAINT uq_people_email UNIQUE
        CONSTRAINT ck_people_email CHECK (email = lower(email) AND email ~ '^[^@\s]{1,64}@[^@\s]{1,190}$'),
    name text NOT NULL DEFAULT '',
    status text NOT NULL DEFAULT 'active'
        CONSTRAINT ck_people_status CHECK (status IN ('active', 'disabled')),
    -- Argon2id in PHC form. Empty for invited people and for people who use single sign-on
    -- only.
    password_hash text NOT NULL DEFAULT '',
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX ix_people_created_at_id ON people (created_at, id);
GRANT SELECT, INSERT, UPDATE, DELETE ON people TO admit_app;
GRANT SELECT ON people TO admit_worker;

-- Roles of an MSP or a tenant. nac/accounts/roles.py defines the built-in roles.
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
GRANT SELECT, INSERT, UPDATE, DELETE ON custom_roles TO admit_app;
GRANT SELECT ON custom_roles TO admit_worker;

CREATE TABLE memberships (
    id uuid CONSTRAINT pk_memberships PRIMARY KEY DEFAULT gen_random_uuid(),
    person_id uuid NOT NULL CONSTRAINT fk_memberships_person_id REFERENCES people ON DELETE CASCADE,
    -- The platform if both msp_id and tenant_id are NULL.
    msp_id uuid CONSTRAINT fk_memberships_msp_id REFERENCES msps ON DELETE CASCADE,
    tenant_id uuid CONSTRAINT fk_memberships_tenant_id REFERENCES tenants ON DELETE CASCADE,
    -- The slug of a built-in role. NULL with a custom role of the same owner.
    role text,
    custom_role_id uuid,
    -- The membership covers only the tenants in membership_tenants.
    has_chosen boolean NOT NULL DEFAULT false,
    created_by text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    -- First sign-in through this membership. Until then the owner learns nothing about the
    -- account.
    accepted_at timestamptz,
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
GRANT SELECT, INSERT, UPDATE, DELETE ON memberships TO admit_app;
-- The worker completes sign-ups.
GRANT SELECT, INSERT ON memberships TO admit_worker;

CREATE TABLE membership_tenants (
    membership_id uuid NOT NULL
        CONSTRAINT fk_membership_tenants_membership_id REFERENCES memberships ON DELETE CASCADE,
    tenant_id uuid NOT NULL CONSTRAINT fk_membership_tenants_tenant_id REFERENCES tenants ON DELETE CASCADE,
    CONSTRAINT pk_membership_tenants PRIMARY KEY (membership_id, tenant_id)
);
CREATE INDEX ix_membership_tenants_tenant_id ON membership_tenants (tenant_id);
GRANT SELECT, INSERT, UPDATE, DELETE ON membership_tenants TO admit_app;
GRANT SELECT, INSERT, DELETE ON membership_tenants TO admit_worker;

-- Tokens of programs. The secret is not stored.
CREATE TABLE api_tokens (
    id uuid CONSTRAINT pk_api_tokens PRIMARY KEY DEFAULT gen_random_uuid(),
    public_id text NOT NULL
        CONSTRAINT uq_api_tokens_public_id UNIQUE
        CONSTRAINT ck_api_tokens_public_id CHECK (public_id ~ '^[a-z0-9]{16}$'),
    secret_sha256 bytea NOT NULL,
    name text NOT NULL,
    -- The platform if both msp_id and tenant_id are NULL.
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
    -- The person who is responsible: the creator, also through other tokens. NULL for a
    -- token from the command line.
    maker_id uuid CONSTRAINT fk_api_tokens_maker_id REFERENCES people ON DELETE CASCADE,
    -- That person's name in the audit log.
    maker text,
    -- Owner of the provider that the creator signed in with. Only grants of this owner
    -- count.
    via_msp_id uuid CONSTRAINT fk_api_tokens_via_msp_id REFERENCES msps ON DELETE CASCADE,
    via_tenant_id uuid CONSTRAINT fk_api_tokens_via_tenant_id REFERENCES tenants ON DELETE CASCADE,
    -- The token that created this one. Both end together.
    parent_id uuid CONSTRAINT fk_api_tokens_parent_id REFERENCES api_tokens ON DELETE CASCADE,
    CONSTRAINT ck_api_tokens_scope CHECK (num_nonnulls(msp_id, tenant_id) <= 1),
    CONSTRAINT ck_api_tokens_maker CHECK (num_nulls(maker_id, maker) <> 1),
    CONSTRAINT ck_api_tokens_via CHECK (num_nonnulls(via_msp_id, via_tenant_id) <= num_nonnulls(maker_id))
);
CREATE INDEX ix_api_tokens_msp_id ON api_tokens (msp_id) WHERE msp_id IS NOT NULL;
CREATE INDEX ix_api_tokens_tenant_id ON api_tokens (tenant_id) WHERE tenant_id IS NOT NULL;
CREATE INDEX ix_api_tokens_maker_id ON api_tokens (maker_id) WHERE maker_id IS NOT NULL;
CREATE INDEX ix_api_tokens_parent_id ON api_tokens (parent_id) WHERE parent_id IS NOT NULL;
CREATE INDEX ix_api_tokens_via_msp_id ON api_tokens (via_msp_id) WHERE via_msp_id IS NOT NULL;
CREATE INDEX ix_api_tokens_via_tenant_id ON api_tokens (via_tenant_id) WHERE via_tenant_id IS NOT NULL;
GRANT SELECT, INSERT, UPDATE ON api_tokens TO admit_app;
GRANT SELECT, DELETE ON api_tokens TO admit_worker;

-- Browser sessions of people. The cookie's secret is not stored.
CREATE TABLE sign_ins (
    id uuid CONSTRAINT pk_sign_ins PRIMARY KEY DEFAULT gen_random_uuid(),
    public_id text NOT NULL
        CONSTRAINT uq_sign_ins_public_id UNIQUE
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
    created_at timestamptz NOT NULL DEFAULT now(),
    -- The person's last proof of identity in this browser. Changes to the account require a
    -- recent one.
    confirmed_at timestamptz NOT NULL DEFAULT now(),
    -- The provider of the sign-in. It covers only memberships of the provider's owner, and
    -- ends with the provider.
    sign_on_id uuid,
    via_msp_id uuid CONSTRAINT fk_sign_ins_via_msp_id REFERENCES msps ON DELETE CASCADE,
    via_tenant_id uuid CONSTRAINT fk_sign_ins_via_tenant_id REFERENCES tenants ON DELETE CASCADE,
    CONSTRAINT ck_sign_ins_via CHECK (num_nonnulls(via_msp_id, via_tenant_id) = num_nonnulls(sign_on_id))
);
CREATE INDEX ix_sign_ins_sign_on_id ON sign_ins (sign_on_id) WHERE sign_on_id IS NOT NULL;
-- The worker deletes old rows.
CREATE INDEX ix_sign_ins_last_seen_at ON sign_ins (last_seen_at);
CREATE INDEX ix_sign_ins_person_id ON sign_ins (person_id, created_at, id);
CREATE INDEX ix_sign_ins_via_msp_id ON sign_ins (via_msp_id, created_at, id) WHERE via_msp_id IS NOT NULL;
CREATE INDEX ix_sign_ins_via_tenant_id ON sign_ins (via_tenant_id, created_at, id)
    WHERE via_tenant_id IS NOT NULL;
GRANT SELECT, INSERT, UPDATE ON sign_ins TO admit_app;
GRANT SELECT, DELETE ON sign_ins TO admit_worker;

-- Mails about accounts that the worker has to send. The request only inserts a row, because a
-- lookup would reveal whether an account exists.
CREATE TABLE account_mails (
    id bigint CONSTRAINT pk_account_mails PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    kind text NOT NULL CONSTRAINT ck_account_mails_kind CHECK (kind IN ('forgotten', 'invitation')),
    -- As typed. No account may have it.
    email text NOT NULL CONSTRAINT ck_account_mails_email CHECK (length(email) <= 255),
    -- Owner of the membership in an invitation. The platform if both msp_id and tenant_id
    -- are NULL.
    msp_id uuid CONSTRAINT fk_account_mails_msp_id REFERENCES msps ON DELETE CASCADE,
    tenant_id uuid CONSTRAINT fk_account_mails_tenant_id REFERENCES tenants ON DELETE CASCADE,
    actor text NOT NULL,
    -- The request came from a browser in which the person has signed in before.
    is_known boolean NOT NULL DEFAULT false,
    address inet,
    request_id text,
    created_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT ck_account_mails_owner CHECK (num_nonnulls(msp_id, tenant_id) <= 1)
);
CREATE INDEX ix_account_mails_msp_id ON account_mails (msp_id) WHERE msp_id IS NOT NULL;
CREATE INDEX ix_account_mails_tenant_id ON account_mails (tenant_id) WHERE tenant_id IS NOT NULL;
GRANT INSERT ON account_mails TO admit_app;
GRANT SELECT, UPDATE, DELETE ON account_mails TO admit_worker;
