CREATE TABLE endpoints (
    id uuid CONSTRAINT pk_endpoints PRIMARY KEY DEFAULT gen_random_uuid(),
    tenant_id uuid NOT NULL CONSTRAINT fk_endpoints_tenant_id REFERENCES tenants ON DELETE CASCADE,
    mac macaddr NOT NULL,
    name text NOT NULL DEFAULT '',
    status text NOT NULL DEFAULT 'active'
        CONSTRAINT ck_endpoints_status CHECK (status IN ('active', 'blocked', 'discovered', 'ignored')),
    valid_until timestamptz,
    attributes jsonb NOT NULL DEFAULT '{}',
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now(),
    owner text NOT NULL DEFAULT '',
    notes text NOT NULL DEFAULT '',
    first_seen_at timestamptz,
    vendor text NOT NULL DEFAULT '',
    -- The worker's result. `set_profile` is a person's choice and overrides it.
    found_profile text NOT NULL DEFAULT '',
    found_confidence int NOT NULL DEFAULT 0
        CONSTRAINT ck_endpoints_found_confidence CHECK (found_confidence BETWEEN 0 AND 100),
    found_why jsonb NOT NULL DEFAULT '[]',
    set_profile text NOT NULL DEFAULT '',
    os text NOT NULL DEFAULT '',
    model text NOT NULL DEFAULT '',
    posture jsonb NOT NULL DEFAULT '{}',
    psk_sealed bytea,
    CONSTRAINT uq_endpoints_tenant_id_mac UNIQUE (tenant_id, mac),
    CONSTRAINT uq_endpoints_tenant_id_id UNIQUE (tenant_id, id),
    CONSTRAINT ck_endpoints_attributes CHECK (jsonb_typeof(attributes) = 'object'),
    CONSTRAINT ck_endpoints_posture CHECK (
        jsonb_typeof(posture) = 'object'
        AND NOT posture @? '$.* ? (@.type() != "object" || !exists(@.value) || !exists(@.until) || @.until.type() != "number")'
    ),
    CONSTRAINT ck_endpoints_found_why CHECK (
        jsonb_typeof(found_why) = 'array' AND NOT found_why @? '$[*] ? (@.type() != "object")'
    )
);
CREATE INDEX ix_endpoints_discovered ON endpoints (tenant_id, mac) WHERE status = 'discovered';
-- In page order, with the MAC address as tie-breaker. Updates of seen devices change no indexed
-- column.
CREATE INDEX ix_endpoints_tenant_id_created_at_mac ON endpoints (tenant_id, created_at, mac);
CREATE INDEX ix_endpoints_tenant_id_name_mac ON endpoints (tenant_id, name, mac);
-- The search across tenants finds a part of a name.
CREATE INDEX ix_endpoints_name_trigrams ON endpoints USING gin (name extensions.gin_trgm_ops) WHERE name <> '';
-- Rows of a tenant come and go by ten thousands between two runs of ANALYZE. Statistics would
-- make the planner expect no rows of a new tenant, and scan all its rows for each lookup.
-- Without statistics it expects an equal share for each tenant (docs/adr/0014).
ALTER TABLE endpoints ALTER tenant_id SET STATISTICS 0;
GRANT SELECT, INSERT, UPDATE, DELETE ON endpoints TO admit_app, admit_worker;
GRANT SELECT ON endpoints TO admit_cell;

CREATE TABLE endpoint_groups (
    id uuid CONSTRAINT pk_endpoint_groups PRIMARY KEY DEFAULT gen_random_uuid(),
    tenant_id uuid NOT NULL CONSTRAINT fk_endpoint_groups_tenant_id REFERENCES tenants ON DELETE CASCADE,
    name text NOT NULL CONSTRAINT ck_endpoint_groups_name CHECK (name <> ''),
    rule jsonb,
    -- The worker has to apply the rule to endpoints beyond this address. NULL when it is
    -- complete.
    rule_cursor macaddr,
    psk_sealed bytea,
    CONSTRAINT uq_endpoint_groups_tenant_id_name UNIQUE (tenant_id, name),
    CONSTRAINT uq_endpoint_groups_tenant_id_id UNIQUE (tenant_id, id),
    CONSTRAINT ck_endpoint_groups_rule_cursor CHECK (rule IS NOT NULL OR rule_cursor IS NULL),
    CONSTRAINT ck_endpoint_groups_rule CHECK (jsonb_typeof(rule) = 'object')
);
GRANT SELECT, INSERT, UPDATE, DELETE ON endpoint_groups TO admit_app, admit_worker;
GRANT SELECT ON endpoint_groups TO admit_cell;

CREATE TABLE endpoint_group_members (
    tenant_id uuid NOT NULL
        CONSTRAINT fk_endpoint_group_members_tenant_id REFERENCES tenants ON DELETE CASCADE,
    endpoint_id uuid NOT NULL,
    group_id uuid NOT NULL,
    CONSTRAINT pk_endpoint_group_members PRIMARY KEY (endpoint_id, group_id),
    CONSTRAINT fk_endpoint_group_members_tenant_id_endpoint_id FOREIGN KEY (tenant_id, endpoint_id)
        REFERENCES endpoints (tenant_id, id) ON DELETE CASCADE,
    CONSTRAINT fk_endpoint_group_members_tenant_id_group_id FOREIGN KEY (tenant_id, group_id)
        REFERENCES endpoint_groups (tenant_id, id) ON DELETE CASCADE
);
CREATE INDEX ix_endpoint_group_members_group_id ON endpoint_group_members (group_id);
-- No statistics, as for endpoints (docs/adr/0014).
ALTER TABLE endpoint_group_members ALTER tenant_id SET STATISTICS 0;
GRANT SELECT, INSERT, UPDATE, DELETE ON endpoint_group_members TO admit_app, admit_worker;
GRANT SELECT ON endpoint_group_members TO admit_cell;

CREATE TABLE endpoint_sightings (
    tenant_id uuid NOT NULL,
    mac macaddr NOT NULL,
    last_seen_at timestamptz NOT NULL,
    site_id uuid,
    nas_id uuid,
    nas_port text NOT NULL DEFAULT '',
    -- NULL if only accounting has reported the device.
    permitted boolean,
    first_seen_at timestamptz NOT NULL DEFAULT now(),
    ssid text NOT NULL DEFAULT '',
    method text NOT NULL DEFAULT '',
    identity text NOT NULL DEFAULT '',
    -- Number of writes, at most one per minute.
    times int NOT NULL DEFAULT 1,
    CONSTRAINT pk_endpoint_sightings PRIMARY KEY (tenant_id, mac)
) WITH (fillfactor = 70);
-- No statistics, as for endpoints (docs/adr/0014).
ALTER TABLE endpoint_sightings ALTER tenant_id SET STATISTICS 0;
GRANT SELECT, DELETE ON endpoint_sightings TO admit_app, admit_worker;
GRANT SELECT, INSERT ON endpoint_sightings TO admit_cell;
GRANT UPDATE (
    last_seen_at, site_id, nas_id, nas_port, permitted, ssid, method, identity, times
) ON endpoint_sightings TO admit_cell;

-- Reports of devices and switches about a MAC address: one value for each of a fixed set of
-- keys.
CREATE TABLE endpoint_evidence (
    tenant_id uuid NOT NULL,
    mac macaddr NOT NULL,
    source text NOT NULL,
    key text NOT NULL,
    value text NOT NULL,
    at timestamptz NOT NULL,
    CONSTRAINT pk_endpoint_evidence PRIMARY KEY (tenant_id, mac, source, key)
);
-- No statistics, as for endpoints (docs/adr/0014).
ALTER TABLE endpoint_evidence ALTER tenant_id SET STATISTICS 0;
GRANT SELECT, DELETE ON endpoint_evidence TO admit_app, admit_worker;
GRANT SELECT, INSERT ON endpoint_evidence TO admit_cell;
GRANT UPDATE (value, at) ON endpoint_evidence TO admit_cell;

-- Endpoints that the worker has to process. Rows are only appended, so writers never wait for
-- each other.
CREATE TABLE endpoint_work (
    id bigint CONSTRAINT pk_endpoint_work PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    tenant_id uuid NOT NULL,
    mac macaddr NOT NULL
);
CREATE INDEX ix_endpoint_work_tenant_id_id ON endpoint_work (tenant_id, id);
-- No statistics, as for endpoints (docs/adr/0014).
ALTER TABLE endpoint_work ALTER tenant_id SET STATISTICS 0;
GRANT SELECT, INSERT, DELETE ON endpoint_work TO admit_app, admit_worker;
GRANT SELECT, INSERT ON endpoint_work TO admit_cell;
