CREATE TABLE sites (
    id uuid CONSTRAINT pk_sites PRIMARY KEY DEFAULT gen_random_uuid(),
    tenant_id uuid NOT NULL CONSTRAINT fk_sites_tenant_id REFERENCES tenants ON DELETE CASCADE,
    slug text NOT NULL CONSTRAINT ck_sites_slug CHECK (slug ~ '^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$'),
    name text NOT NULL,
    time_zone text NOT NULL DEFAULT 'UTC',
    policy_id uuid,
    fallback jsonb,
    -- Log the policy's verdict, but admit devices as the fallback does.
    monitor boolean NOT NULL DEFAULT false,
    CONSTRAINT uq_sites_tenant_id_slug UNIQUE (tenant_id, slug),
    CONSTRAINT uq_sites_tenant_id_id UNIQUE (tenant_id, id),
    CONSTRAINT fk_sites_tenant_id_policy_id FOREIGN KEY (tenant_id, policy_id)
        REFERENCES policies (tenant_id, id),
    CONSTRAINT ck_sites_fallback CHECK (jsonb_typeof(fallback) = 'object')
);
ALTER TABLE tenants ADD CONSTRAINT fk_tenants_id_default_site_id
    FOREIGN KEY (id, default_site_id) REFERENCES sites (tenant_id, id);
-- In page order.
CREATE INDEX ix_sites_tenant_id_name ON sites (tenant_id, name, slug);
CREATE INDEX ix_sites_tenant_id_time_zone ON sites (tenant_id, time_zone, slug);
GRANT SELECT, INSERT, UPDATE, DELETE ON sites TO admit_app, admit_worker;
GRANT SELECT ON sites TO admit_cell;

CREATE TABLE nases (
    id uuid CONSTRAINT pk_nases PRIMARY KEY DEFAULT gen_random_uuid(),
    tenant_id uuid NOT NULL CONSTRAINT fk_nases_tenant_id REFERENCES tenants ON DELETE CASCADE,
    site_id uuid NOT NULL,
    name text NOT NULL,
    identifier text,
    address inet
        CONSTRAINT ck_nases_single_host CHECK (
            masklen(address) = CASE family(address) WHEN 4 THEN 32 ELSE 128 END
        ),
    vendor text NOT NULL DEFAULT '',
    secret_sealed bytea,
    require_message_authenticator boolean NOT NULL DEFAULT true,
    -- The NAS cannot receive requests.
    behind_nat boolean NOT NULL DEFAULT false,
    -- Its responses to RFC 5176 requests are valid only with a Message-Authenticator.
    signs_coa_answers boolean NOT NULL DEFAULT false,
    -- The password in MAB requests: the MAC address, a fixed text, the shared secret, or
    -- none.
    mab_password text NOT NULL DEFAULT 'mac'
        CONSTRAINT ck_nases_mab_password CHECK (mab_password IN ('mac', 'fixed', 'secret', 'empty')),
    -- The fixed text. A tenant file without secrets has none. Then MAB admits no device.
    mab_password_sealed bytea
        CONSTRAINT ck_nases_mab_password_sealed CHECK (
            mab_password_sealed IS NULL OR mab_password = 'fixed'
        ),
    -- In requests without Calling-Station-Id and Service-Type, the user name is the MAC
    -- address.
    mab_by_name boolean NOT NULL DEFAULT false,
    CONSTRAINT uq_nases_tenant_id_id UNIQUE (tenant_id, id),
    CONSTRAINT uq_nases_tenant_id_identifier UNIQUE (tenant_id, identifier),
    CONSTRAINT uq_nases_tenant_id_address UNIQUE (tenant_id, address),
    CONSTRAINT fk_nases_tenant_id_site_id FOREIGN KEY (tenant_id, site_id) REFERENCES sites (tenant_id, id),
    -- Without either, Admit could not recognise requests of this NAS.
    CONSTRAINT ck_nases_recognisable CHECK (identifier IS NOT NULL OR address IS NOT NULL),
    -- radiusd chooses secret and Message-Authenticator rule by source address, before it
    -- reads attributes.
    CONSTRAINT ck_nases_own_rules_need_address CHECK (
        address IS NOT NULL OR (secret_sealed IS NULL AND require_message_authenticator)
    )
);
CREATE INDEX ix_nases_site_id ON nases (site_id);
-- As for users.
CREATE INDEX ix_nases_tenant_id_lower_name ON nases (tenant_id, lower(name) text_pattern_ops);
CREATE INDEX ix_nases_tenant_id_lower_identifier ON nases (tenant_id, lower(identifier) text_pattern_ops);
GRANT SELECT, INSERT, UPDATE, DELETE ON nases TO admit_app, admit_worker;
GRANT SELECT ON nases TO admit_cell;

-- Whether a NAS exempt from Message-Authenticator sends it. EAP requests do not count, because
-- they always have one (RFC 3579 3.2).
CREATE TABLE nas_signatures (
    nas_id uuid CONSTRAINT pk_nas_signatures PRIMARY KEY,
    tenant_id uuid NOT NULL CONSTRAINT fk_nas_signatures_tenant_id REFERENCES tenants ON DELETE CASCADE,
    last_unsigned_at timestamptz,
    -- The first signed request after the last unsigned one.
    signs_since timestamptz,
    last_signed_at timestamptz,
    CONSTRAINT fk_nas_signatures_nas FOREIGN KEY (tenant_id, nas_id)
        REFERENCES nases (tenant_id, id) ON DELETE CASCADE
);
CREATE INDEX ix_nas_signatures_tenant_id ON nas_signatures (tenant_id);
GRANT SELECT ON nas_signatures TO admit_app, admit_worker;
GRANT SELECT, INSERT, UPDATE ON nas_signatures TO admit_cell;

-- The last request of a NAS. Cells write it at most once a minute, so it can be a minute old.
CREATE TABLE nas_sightings (
    nas_id uuid CONSTRAINT pk_nas_sightings PRIMARY KEY,
    tenant_id uuid NOT NULL CONSTRAINT fk_nas_sightings_tenant_id REFERENCES tenants ON DELETE CASCADE,
    last_seen_at timestamptz NOT NULL,
    CONSTRAINT fk_nas_sightings_nas FOREIGN KEY (tenant_id, nas_id)
        REFERENCES nases (tenant_id, id) ON DELETE CASCADE
) WITH (fillfactor = 70);
CREATE INDEX ix_nas_sightings_tenant_id ON nas_sightings (tenant_id);
GRANT SELECT ON nas_sightings TO admit_app, admit_worker;
GRANT SELECT, INSERT, UPDATE ON nas_sightings TO admit_cell;
