-- References between rows of tenants hold the tenant too: foreign keys are checked without row-level security, so a
-- plain reference could name another tenant's row.

CREATE TABLE policies (
    id uuid CONSTRAINT pk_policies PRIMARY KEY DEFAULT gen_random_uuid(),
    tenant_id uuid NOT NULL CONSTRAINT fk_policies_tenant_id REFERENCES tenants ON DELETE CASCADE,
    slug text NOT NULL CONSTRAINT ck_policies_slug CHECK (slug ~ '^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$'),
    name text NOT NULL,
    published_version int,
    CONSTRAINT uq_policies_tenant_id_slug UNIQUE (tenant_id, slug),
    CONSTRAINT uq_policies_tenant_id_id UNIQUE (tenant_id, id)
);

CREATE TABLE policy_versions (
    id uuid CONSTRAINT pk_policy_versions PRIMARY KEY DEFAULT gen_random_uuid(),
    tenant_id uuid NOT NULL CONSTRAINT fk_policy_versions_tenant_id REFERENCES tenants ON DELETE CASCADE,
    policy_id uuid NOT NULL,
    number int NOT NULL CONSTRAINT ck_policy_versions_number CHECK (number > 0),
    document jsonb NOT NULL,
    status text NOT NULL DEFAULT 'draft' CONSTRAINT ck_policy_versions_status CHECK (status IN ('draft', 'published', 'superseded')),
    created_at timestamptz NOT NULL DEFAULT now(),
    published_at timestamptz,
    comment text NOT NULL DEFAULT '',
    CONSTRAINT uq_policy_versions_policy_id_number UNIQUE (policy_id, number),
    CONSTRAINT fk_policy_versions_tenant_id_policy_id FOREIGN KEY (tenant_id, policy_id) REFERENCES policies (tenant_id, id) ON DELETE CASCADE
);

CREATE TABLE sites (
    id uuid CONSTRAINT pk_sites PRIMARY KEY DEFAULT gen_random_uuid(),
    tenant_id uuid NOT NULL CONSTRAINT fk_sites_tenant_id REFERENCES tenants ON DELETE CASCADE,
    slug text NOT NULL CONSTRAINT ck_sites_slug CHECK (slug ~ '^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$'),
    name text NOT NULL,
    time_zone text NOT NULL DEFAULT 'UTC',
    policy_id uuid,
    fallback jsonb,
    CONSTRAINT uq_sites_tenant_id_slug UNIQUE (tenant_id, slug),
    CONSTRAINT uq_sites_tenant_id_id UNIQUE (tenant_id, id),
    CONSTRAINT fk_sites_tenant_id_policy_id FOREIGN KEY (tenant_id, policy_id) REFERENCES policies (tenant_id, id)
);
ALTER TABLE tenants ADD CONSTRAINT fk_tenants_id_default_site_id FOREIGN KEY (id, default_site_id) REFERENCES sites (tenant_id, id);

CREATE TABLE nases (
    id uuid CONSTRAINT pk_nases PRIMARY KEY DEFAULT gen_random_uuid(),
    tenant_id uuid NOT NULL CONSTRAINT fk_nases_tenant_id REFERENCES tenants ON DELETE CASCADE,
    site_id uuid NOT NULL,
    name text NOT NULL,
    identifier text,
    address inet CONSTRAINT ck_nases_single_host CHECK (masklen(address) = CASE family(address) WHEN 4 THEN 32 ELSE 128 END),
    vendor text NOT NULL DEFAULT '',
    secret_sealed bytea,
    require_message_authenticator boolean NOT NULL DEFAULT true,
    CONSTRAINT uq_nases_tenant_id_id UNIQUE (tenant_id, id),
    CONSTRAINT uq_nases_tenant_id_identifier UNIQUE (tenant_id, identifier),
    CONSTRAINT uq_nases_tenant_id_address UNIQUE (tenant_id, address),
    CONSTRAINT fk_nases_tenant_id_site_id FOREIGN KEY (tenant_id, site_id) REFERENCES sites (tenant_id, id),
    -- Without either, no request could ever be recognised as this NAS's.
    CONSTRAINT ck_nases_recognisable CHECK (identifier IS NOT NULL OR address IS NOT NULL),
    -- radiusd chooses secret and Message-Authenticator rule by source address, before it reads an attribute.
    CONSTRAINT ck_nases_own_rules_need_address CHECK (address IS NOT NULL OR (secret_sealed IS NULL AND require_message_authenticator))
);
CREATE INDEX ix_nases_site_id ON nases (site_id);

CREATE TABLE endpoints (
    id uuid CONSTRAINT pk_endpoints PRIMARY KEY DEFAULT gen_random_uuid(),
    tenant_id uuid NOT NULL CONSTRAINT fk_endpoints_tenant_id REFERENCES tenants ON DELETE CASCADE,
    mac macaddr NOT NULL,
    name text NOT NULL DEFAULT '',
    status text NOT NULL DEFAULT 'active' CONSTRAINT ck_endpoints_status CHECK (status IN ('active', 'blocked')),
    valid_until timestamptz,
    attributes jsonb NOT NULL DEFAULT '{}',
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT uq_endpoints_tenant_id_mac UNIQUE (tenant_id, mac),
    CONSTRAINT uq_endpoints_tenant_id_id UNIQUE (tenant_id, id)
);

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
    CONSTRAINT uq_users_tenant_id_name UNIQUE (tenant_id, name),
    CONSTRAINT uq_users_tenant_id_id UNIQUE (tenant_id, id)
);

CREATE FUNCTION refuse_rename() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'the name of a group is immutable' USING ERRCODE = 'check_violation', TABLE = TG_TABLE_NAME, CONSTRAINT = 'immutable_name';
END
$$;

CREATE TABLE endpoint_groups (
    id uuid CONSTRAINT pk_endpoint_groups PRIMARY KEY DEFAULT gen_random_uuid(),
    tenant_id uuid NOT NULL CONSTRAINT fk_endpoint_groups_tenant_id REFERENCES tenants ON DELETE CASCADE,
    name text NOT NULL CONSTRAINT ck_endpoint_groups_name CHECK (name <> ''),
    CONSTRAINT uq_endpoint_groups_tenant_id_name UNIQUE (tenant_id, name),
    CONSTRAINT uq_endpoint_groups_tenant_id_id UNIQUE (tenant_id, id)
);
CREATE TRIGGER immutable_name BEFORE UPDATE OF name ON endpoint_groups
    FOR EACH ROW WHEN (OLD.name <> NEW.name) EXECUTE FUNCTION refuse_rename();

CREATE TABLE user_groups (
    id uuid CONSTRAINT pk_user_groups PRIMARY KEY DEFAULT gen_random_uuid(),
    tenant_id uuid NOT NULL CONSTRAINT fk_user_groups_tenant_id REFERENCES tenants ON DELETE CASCADE,
    name text NOT NULL CONSTRAINT ck_user_groups_name CHECK (name <> ''),
    CONSTRAINT uq_user_groups_tenant_id_name UNIQUE (tenant_id, name),
    CONSTRAINT uq_user_groups_tenant_id_id UNIQUE (tenant_id, id)
);
CREATE TRIGGER immutable_name BEFORE UPDATE OF name ON user_groups
    FOR EACH ROW WHEN (OLD.name <> NEW.name) EXECUTE FUNCTION refuse_rename();

CREATE TABLE endpoint_group_members (
    tenant_id uuid NOT NULL CONSTRAINT fk_endpoint_group_members_tenant_id REFERENCES tenants ON DELETE CASCADE,
    endpoint_id uuid NOT NULL,
    group_id uuid NOT NULL,
    CONSTRAINT pk_endpoint_group_members PRIMARY KEY (endpoint_id, group_id),
    CONSTRAINT fk_endpoint_group_members_tenant_id_endpoint_id FOREIGN KEY (tenant_id, endpoint_id)
        REFERENCES endpoints (tenant_id, id) ON DELETE CASCADE,
    CONSTRAINT fk_endpoint_group_members_tenant_id_group_id FOREIGN KEY (tenant_id, group_id)
        REFERENCES endpoint_groups (tenant_id, id) ON DELETE CASCADE
);
CREATE INDEX ix_endpoint_group_members_group_id ON endpoint_group_members (group_id);

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

CREATE TABLE certificate_authorities (
    id uuid CONSTRAINT pk_certificate_authorities PRIMARY KEY DEFAULT gen_random_uuid(),
    tenant_id uuid NOT NULL CONSTRAINT fk_certificate_authorities_tenant_id REFERENCES tenants ON DELETE CASCADE,
    kind text NOT NULL CONSTRAINT ck_certificate_authorities_kind CHECK (kind IN ('root', 'issuing', 'external')),
    name text NOT NULL,
    subject text NOT NULL,
    certificate_der bytea NOT NULL,
    key_sealed bytea,
    key_id bytea NOT NULL,
    status text NOT NULL DEFAULT 'active' CONSTRAINT ck_certificate_authorities_status CHECK (status IN ('active', 'retired', 'revoked')),
    not_before timestamptz NOT NULL,
    not_after timestamptz NOT NULL,
    issuer_id uuid,
    CONSTRAINT uq_certificate_authorities_tenant_id_id UNIQUE (tenant_id, id),
    CONSTRAINT fk_certificate_authorities_tenant_id_issuer_id FOREIGN KEY (tenant_id, issuer_id) REFERENCES certificate_authorities (tenant_id, id)
);
CREATE INDEX ix_certificate_authorities_tenant_id_subject ON certificate_authorities (tenant_id, subject);

CREATE TABLE certificates (
    id uuid CONSTRAINT pk_certificates PRIMARY KEY DEFAULT gen_random_uuid(),
    tenant_id uuid NOT NULL CONSTRAINT fk_certificates_tenant_id REFERENCES tenants ON DELETE CASCADE,
    authority_id uuid NOT NULL,
    serial bytea NOT NULL CONSTRAINT ck_certificates_serial
        CHECK (length(serial) BETWEEN 1 AND 20 AND get_byte(serial, 0) <> 0), -- RFC 5280 4.1.2.2: at most 20 octets
    profile text NOT NULL,
    common_name text NOT NULL,
    subject text NOT NULL,
    certificate_der bytea,
    key_sealed bytea,
    status text NOT NULL DEFAULT 'intended' CONSTRAINT ck_certificates_status CHECK (status IN ('intended', 'valid', 'suspended', 'revoked')),
    revoked_at timestamptz,
    revocation_reason text NOT NULL DEFAULT '',
    not_before timestamptz NOT NULL,
    not_after timestamptz NOT NULL,
    endpoint_id uuid,
    user_id uuid,
    created_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT uq_certificates_tenant_id_serial UNIQUE (tenant_id, serial),
    CONSTRAINT uq_certificates_tenant_id_id UNIQUE (tenant_id, id),
    CONSTRAINT ck_certificates_signed CHECK (status = 'intended' OR certificate_der IS NOT NULL),
    CONSTRAINT fk_certificates_tenant_id_authority_id FOREIGN KEY (tenant_id, authority_id) REFERENCES certificate_authorities (tenant_id, id),
    CONSTRAINT fk_certificates_tenant_id_endpoint_id FOREIGN KEY (tenant_id, endpoint_id)
        REFERENCES endpoints (tenant_id, id) ON DELETE SET NULL (endpoint_id),
    CONSTRAINT fk_certificates_tenant_id_user_id FOREIGN KEY (tenant_id, user_id)
        REFERENCES users (tenant_id, id) ON DELETE SET NULL (user_id)
);
CREATE INDEX ix_certificates_authority_id ON certificates (authority_id);
CREATE INDEX ix_certificates_endpoint_id ON certificates (endpoint_id);
CREATE INDEX ix_certificates_user_id ON certificates (user_id);
