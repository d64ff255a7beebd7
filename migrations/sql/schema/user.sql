CREATE TABLE users (
    id uuid CONSTRAINT pk_users PRIMARY KEY DEFAULT gen_random_uuid(),
    tenant_id uuid NOT NULL CONSTRAINT fk_users_tenant_id REFERENCES tenants ON DELETE CASCADE,
    name text NOT NULL,
    disabled boolean NOT NULL DEFAULT false,
    password_hash text NOT NULL,
    password_sealed bytea,
    valid_until timestamptz,
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now(),
    -- MD4 of the password (RFC 2759 8.3), sealed. Only for users of MS-CHAP.
    nt_hash_sealed bytea,
    CONSTRAINT uq_users_tenant_id_name UNIQUE (tenant_id, name),
    CONSTRAINT uq_users_tenant_id_id UNIQUE (tenant_id, id)
);
-- In page order, with the name as tie-breaker.
CREATE INDEX ix_users_tenant_id_created_at_name ON users (tenant_id, created_at, name);
-- The search across tenants finds the start of a name, whatever the collation of the database.
CREATE INDEX ix_users_tenant_id_lower_name ON users (tenant_id, lower(name) text_pattern_ops);
GRANT SELECT, INSERT, UPDATE, DELETE ON users TO admit_app, admit_worker;
GRANT SELECT ON users TO admit_cell;

CREATE TABLE user_groups (
    id uuid CONSTRAINT pk_user_groups PRIMARY KEY DEFAULT gen_random_uuid(),
    tenant_id uuid NOT NULL CONSTRAINT fk_user_groups_tenant_id REFERENCES tenants ON DELETE CASCADE,
    name text NOT NULL CONSTRAINT ck_user_groups_name CHECK (name <> ''),
    CONSTRAINT uq_user_groups_tenant_id_name UNIQUE (tenant_id, name),
    CONSTRAINT uq_user_groups_tenant_id_id UNIQUE (tenant_id, id)
);
GRANT SELECT, INSERT, UPDATE, DELETE ON user_groups TO admit_app, admit_worker;
GRANT SELECT ON user_groups TO admit_cell;

CREATE TABLE user_group_members (
    tenant_id uuid NOT NULL CONSTRAINT fk_user_group_members_tenant_id REFERENCES tenants ON DELETE CASCADE,
    user_id uuid NOT NULL,
    group_id uuid NOT NULL,
    CONSTRAINT pk_user_group_members PRIMARY KEY (user_id, group_id),
    CONSTRAINT fk_user_group_members_tenant_id_user_id FOREIGN KEY (tenant_id, user_id)
        REFERENCES users (tenant_id, id) ON DELETE CASCADE,
    CONSTRAINT fk_user_group_members_tenant_id_group_id FOREIGN KEY (tenant_id, group_id)
        REFERENCES user_groups (tenant_id, id) ON DELETE CASCADE
);
CREATE INDEX ix_user_group_members_group_id ON user_group_members (group_id);
GRANT SELECT, INSERT, UPDATE, DELETE ON user_group_members TO admit_app, admit_worker;
GRANT SELECT ON user_group_members TO admit_cell;

-- Directories and providers that authenticate a tenant's users.
CREATE TABLE identity_sources (
    id uuid CONSTRAINT pk_identity_sources PRIMARY KEY DEFAULT gen_random_uuid(),
    tenant_id uuid NOT NULL CONSTRAINT fk_identity_sources_tenant_id REFERENCES tenants ON DELETE CASCADE,
    name text NOT NULL
        CONSTRAINT ck_identity_sources_name CHECK (name ~ '^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$'),
    kind text NOT NULL CONSTRAINT ck_identity_sources_kind CHECK (kind IN ('ldap', 'oidc')),
    position int NOT NULL DEFAULT 100
        CONSTRAINT ck_identity_sources_position CHECK (position BETWEEN 1 AND 1000),
    enabled boolean NOT NULL DEFAULT true,
    settings jsonb NOT NULL,
    secret_sealed bytea,
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT uq_identity_sources_tenant_id_name UNIQUE (tenant_id, name),
    CONSTRAINT ck_identity_sources_settings CHECK (jsonb_typeof(settings) = 'object')
);
GRANT SELECT, INSERT, UPDATE, DELETE ON identity_sources TO admit_app, admit_worker;
GRANT SELECT ON identity_sources TO admit_cell;
