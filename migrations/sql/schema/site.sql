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
