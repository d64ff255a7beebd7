CREATE TABLE pools (
    id uuid CONSTRAINT pk_pools PRIMARY KEY DEFAULT gen_random_uuid(),
    tenant_id uuid NOT NULL CONSTRAINT fk_pools_tenant_id_tenants REFERENCES tenants (id) ON DELETE CASCADE,
    -- NULL: of the whole tenant.
    site_id uuid,
    name text NOT NULL,
    kind text NOT NULL CONSTRAINT ck_pools_kind CHECK (kind IN ('ipv4', 'ipv6', 'delegated')),
    ranges text[] NOT NULL,
    exclusions text[] NOT NULL DEFAULT '{}',
    -- Of what a device gets: 32 for an IPv4 address.
    prefix_length int NOT NULL,
    when_empty text NOT NULL DEFAULT 'deny' CONSTRAINT ck_pools_when_empty CHECK (when_empty IN ('deny', 'without')),
    -- How many addresses a cell keeps ready.
    stock int NOT NULL DEFAULT 1024 CONSTRAINT ck_pools_stock CHECK (stock BETWEEN 1 AND 4096),
    grace_seconds int NOT NULL DEFAULT 600 CONSTRAINT ck_pools_grace_seconds CHECK (grace_seconds BETWEEN 60 AND 86400),
    quarantine_seconds int NOT NULL DEFAULT 300
        CONSTRAINT ck_pools_quarantine_seconds CHECK (quarantine_seconds BETWEEN 60 AND 604800),
    -- Nothing new is given out of it; it goes with its last address.
    removing boolean NOT NULL DEFAULT false,
    created_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT uq_pools_tenant_id_site_id UNIQUE NULLS NOT DISTINCT (tenant_id, site_id, name),
    CONSTRAINT fk_pools_tenant_id_sites FOREIGN KEY (tenant_id, site_id) REFERENCES sites (tenant_id, id)
);

-- A row for each address (or prefix) of a pool. free: of no cell. stock: ready in the cell. leased: a device has it.
-- quarantined: nobody has it, and nobody but the device that had it gets it before its time is over.
CREATE TABLE pool_addresses (
    pool_id uuid NOT NULL CONSTRAINT fk_pool_addresses_pool_id_pools REFERENCES pools (id) ON DELETE CASCADE,
    -- Within the pool, and never another's while that is there.
    number int NOT NULL,
    tenant_id uuid NOT NULL CONSTRAINT fk_pool_addresses_tenant_id_tenants REFERENCES tenants (id) ON DELETE CASCADE,
    address inet NOT NULL,
    state text NOT NULL DEFAULT 'free'
        CONSTRAINT ck_pool_addresses_state CHECK (state IN ('free', 'stock', 'leased', 'quarantined')),
    -- Was taken out of the pool: it goes as soon as nobody has it.
    leaving boolean NOT NULL DEFAULT false,
    reserved_for macaddr,
    cell_id int CONSTRAINT fk_pool_addresses_cell_id_cells REFERENCES cells (id) ON DELETE SET NULL,
    -- Grows whenever the address is made ready: each number is taken once.
    grant_number bigint NOT NULL DEFAULT 0,
    -- Of the device that has it, or had it last.
    mac macaddr,
    -- The last Access-Accept with it.
    decided_at timestamptz,
    -- leased: when to look whether a session holds it. quarantined: its end. Else: since when nobody has it.
    until timestamptz,
    CONSTRAINT pk_pool_addresses PRIMARY KEY (pool_id, number),
    CONSTRAINT uq_pool_addresses_tenant_id_address UNIQUE (tenant_id, address)
);
CREATE INDEX ix_pool_addresses_free ON pool_addresses (pool_id, until NULLS FIRST, number) WHERE state = 'free';
CREATE INDEX ix_pool_addresses_stock ON pool_addresses (pool_id, cell_id) WHERE state = 'stock';
CREATE INDEX ix_pool_addresses_until ON pool_addresses (tenant_id, until) WHERE state IN ('leased', 'quarantined');
CREATE INDEX ix_pool_addresses_mac ON pool_addresses (tenant_id, mac) WHERE mac IS NOT NULL;
CREATE INDEX ix_pool_addresses_leaving ON pool_addresses (tenant_id) WHERE leaving;
CREATE INDEX ix_pool_addresses_reserved_for ON pool_addresses (pool_id, reserved_for) WHERE reserved_for IS NOT NULL;

GRANT SELECT, INSERT, UPDATE, DELETE ON pools, pool_addresses TO admit_app, admit_worker;
CREATE POLICY cell_scope ON pools TO admit_cell
    USING (tenant_id IN (SELECT s.tenant_id FROM slots s WHERE s.cell_id = scope_cell_id()));
CREATE POLICY cell_scope ON pool_addresses TO admit_cell
    USING (tenant_id IN (SELECT s.tenant_id FROM slots s WHERE s.cell_id = scope_cell_id()))
    WITH CHECK (tenant_id IN (SELECT s.tenant_id FROM slots s WHERE s.cell_id = scope_cell_id()));
GRANT SELECT ON pools, pool_addresses TO admit_cell;
GRANT UPDATE (state, cell_id, grant_number, mac, decided_at, until) ON pool_addresses TO admit_cell;
