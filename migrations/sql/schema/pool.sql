CREATE TABLE pools (
    id uuid CONSTRAINT pk_pools PRIMARY KEY DEFAULT gen_random_uuid(),
    tenant_id uuid NOT NULL CONSTRAINT fk_pools_tenant_id_tenants REFERENCES tenants (id) ON DELETE CASCADE,
    -- NULL: the whole tenant.
    site_id uuid,
    name text NOT NULL,
    kind text NOT NULL CONSTRAINT ck_pools_kind CHECK (kind IN ('ipv4', 'ipv6', 'delegated')),
    ranges text[] NOT NULL,
    exclusions text[] NOT NULL DEFAULT '{}',
    -- Of a device's lease: 32 for an IPv4 address.
    prefix_length int NOT NULL,
    when_empty text NOT NULL DEFAULT 'deny'
        CONSTRAINT ck_pools_when_empty CHECK (when_empty IN ('deny', 'without')),
    -- How many free addresses a cell holds.
    stock int NOT NULL DEFAULT 1024 CONSTRAINT ck_pools_stock CHECK (stock BETWEEN 1 AND 4096),
    grace_seconds int NOT NULL DEFAULT 600
        CONSTRAINT ck_pools_grace_seconds CHECK (grace_seconds BETWEEN 60 AND 86400),
    quarantine_seconds int NOT NULL DEFAULT 300
        CONSTRAINT ck_pools_quarantine_seconds CHECK (quarantine_seconds BETWEEN 60 AND 604800),
    -- The pool gives out no addresses, and is deleted with its last one.
    removing boolean NOT NULL DEFAULT false,
    created_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT uq_pools_tenant_id_site_id UNIQUE NULLS NOT DISTINCT (tenant_id, site_id, name),
    CONSTRAINT fk_pools_tenant_id_sites FOREIGN KEY (tenant_id, site_id) REFERENCES sites (tenant_id, id),
    -- For references that include the tenant.
    CONSTRAINT uq_pools_tenant_id_id UNIQUE (tenant_id, id)
);
GRANT SELECT, INSERT, UPDATE, DELETE ON pools TO admit_app, admit_worker;
GRANT SELECT ON pools TO admit_cell;

-- A row for each address or prefix of a pool. free: in no cell. stock: ready in the cell.
-- leased: held by a device. quarantined: free, but reserved for its last device until the
-- quarantine ends.
CREATE TABLE pool_addresses (
    pool_id uuid NOT NULL,
    -- Within the pool, and never reused while the pool exists.
    number int NOT NULL,
    tenant_id uuid NOT NULL
        CONSTRAINT fk_pool_addresses_tenant_id_tenants REFERENCES tenants (id) ON DELETE CASCADE,
    address inet NOT NULL,
    state text NOT NULL DEFAULT 'free'
        CONSTRAINT ck_pool_addresses_state CHECK (state IN ('free', 'stock', 'leased', 'quarantined')),
    -- Removed from the pool: deleted as soon as it is free.
    leaving boolean NOT NULL DEFAULT false,
    reserved_for macaddr,
    cell_id int CONSTRAINT fk_pool_addresses_cell_id_cells REFERENCES cells (id) ON DELETE SET NULL,
    -- Grows each time the address becomes ready. A number is used once.
    grant_number bigint NOT NULL DEFAULT 0,
    -- The current or last device.
    mac macaddr,
    -- The last Access-Accept with the address.
    decided_at timestamptz,
    -- leased: next check for a session. quarantined: its end. Otherwise: free since.
    until timestamptz,
    -- The last device does not get the address back, because it was revoked or others may
    -- have had it. A late session of that device may still hold it.
    released boolean NOT NULL DEFAULT false,
    CONSTRAINT pk_pool_addresses PRIMARY KEY (pool_id, number),
    CONSTRAINT uq_pool_addresses_tenant_id_address UNIQUE (tenant_id, address),
    CONSTRAINT fk_pool_addresses_tenant_id_pool_id FOREIGN KEY (tenant_id, pool_id)
        REFERENCES pools (tenant_id, id) ON DELETE CASCADE
);
CREATE INDEX ix_pool_addresses_free ON pool_addresses (pool_id, until NULLS FIRST, number) WHERE state = 'free';
CREATE INDEX ix_pool_addresses_stock ON pool_addresses (pool_id, cell_id) WHERE state = 'stock';
CREATE INDEX ix_pool_addresses_until ON pool_addresses (tenant_id, until)
    WHERE state IN ('leased', 'quarantined');
CREATE INDEX ix_pool_addresses_mac ON pool_addresses (tenant_id, mac) WHERE mac IS NOT NULL;
CREATE INDEX ix_pool_addresses_leaving ON pool_addresses (tenant_id) WHERE leaving;
CREATE INDEX ix_pool_addresses_reserved_for ON pool_addresses (pool_id, reserved_for)
    WHERE reserved_for IS NOT NULL;
-- No statistics, as for endpoints (docs/adr/0014).
ALTER TABLE pool_addresses ALTER tenant_id SET STATISTICS 0;
GRANT SELECT, INSERT, UPDATE, DELETE ON pool_addresses TO admit_app, admit_worker;
GRANT SELECT ON pool_addresses TO admit_cell;
GRANT UPDATE (state, cell_id, grant_number, mac, decided_at, until, released) ON pool_addresses TO admit_cell;
