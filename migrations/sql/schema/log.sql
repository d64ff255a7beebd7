-- Logs are append-only, with a partition for each UTC day. No foreign keys, because rows arrive
-- late and in bulk, and outlive the objects that they name.

CREATE SEQUENCE auth_log_id_seq AS bigint;
CREATE TABLE auth_log (
    at timestamptz NOT NULL,
    id bigint NOT NULL DEFAULT nextval('auth_log_id_seq'),
    tenant_id uuid NOT NULL,
    cell_id int NOT NULL,
    site_id uuid,
    nas_id uuid,
    nas_address inet,
    nas_identifier text NOT NULL DEFAULT '',
    nas_port text NOT NULL DEFAULT '',
    mac macaddr,
    identity text NOT NULL DEFAULT '',
    method text NOT NULL,
    permitted boolean NOT NULL,
    reason text NOT NULL,
    detail text NOT NULL DEFAULT '',
    rule_id text NOT NULL DEFAULT '',
    rule_name text NOT NULL DEFAULT '',
    policy_id uuid,
    policy_version int NOT NULL DEFAULT 0,
    vlan text NOT NULL DEFAULT '',
    reply json NOT NULL DEFAULT '[]',
    certificate_serial text NOT NULL DEFAULT '',
    tls_version text NOT NULL DEFAULT '',
    resumed boolean NOT NULL DEFAULT false,
    request json NOT NULL DEFAULT '{}',
    module_microseconds int NOT NULL DEFAULT 0,
    suppressed int NOT NULL DEFAULT 0,
    -- permit, deny or quarantine by policy. `permitted` can differ in monitor mode.
    verdict text NOT NULL DEFAULT '',
    -- The object in monitor mode: 'rule' or 'site'. Empty without monitor mode.
    monitored text NOT NULL DEFAULT '',
    -- In lower case. Columns, because row-level security keeps lower() from using an index:
    -- it is not leakproof. Empty for MAB, where searches use the MAC address.
    identity_key text NOT NULL DEFAULT '',
    common_name_key text NOT NULL DEFAULT '',
    -- A backward scan lists a tenant's rows, newest first.
    CONSTRAINT pk_auth_log PRIMARY KEY (tenant_id, at, id)
) PARTITION BY RANGE (at);
ALTER SEQUENCE auth_log_id_seq OWNED BY auth_log.id;
CREATE TABLE auth_log_default PARTITION OF auth_log DEFAULT;
CREATE INDEX ix_auth_log_tenant_id_mac_at ON auth_log (tenant_id, mac, at DESC);
-- The devices that used a certificate.
CREATE INDEX ix_auth_log_tenant_id_certificate_serial_at ON auth_log (tenant_id, certificate_serial, at DESC)
    WHERE certificate_serial <> '';
-- The most frequent search: devices that were not simply admitted.
CREATE INDEX ix_auth_log_not_admitted ON auth_log (tenant_id, at DESC, id DESC)
    WHERE NOT permitted OR verdict IN ('quarantine', 'deny') OR monitored <> '';
CREATE INDEX ix_auth_log_identity_key ON auth_log (tenant_id, identity_key, at DESC, id DESC)
    WHERE identity_key <> '';
CREATE INDEX ix_auth_log_common_name_key ON auth_log (tenant_id, common_name_key, at DESC, id DESC)
    WHERE common_name_key <> '';
GRANT SELECT ON auth_log TO admit_app;
GRANT INSERT ON auth_log TO admit_cell;
GRANT SELECT, DELETE ON auth_log TO admit_worker;
GRANT USAGE ON SEQUENCE auth_log_id_seq TO admit_cell;

CREATE SEQUENCE accounting_log_id_seq AS bigint;
CREATE TABLE accounting_log (
    at timestamptz NOT NULL,
    id bigint NOT NULL DEFAULT nextval('accounting_log_id_seq'),
    tenant_id uuid NOT NULL,
    cell_id int NOT NULL,
    site_id uuid,
    nas_id uuid,
    nas_address inet,
    status_type text NOT NULL,
    session_id text NOT NULL DEFAULT '',
    mac macaddr,
    identity text NOT NULL DEFAULT '',
    session_seconds bigint,
    input_octets bigint,
    output_octets bigint,
    terminate_cause text NOT NULL DEFAULT '',
    attributes json NOT NULL DEFAULT '[]',
    -- A backward scan lists a tenant's rows, newest first.
    CONSTRAINT pk_accounting_log PRIMARY KEY (tenant_id, at, id)
) PARTITION BY RANGE (at);
ALTER SEQUENCE accounting_log_id_seq OWNED BY accounting_log.id;
-- Rows with an unexpected time must not stop the journal. Causes: a cell's wrong clock, or
-- missing partitions.
CREATE TABLE accounting_log_default PARTITION OF accounting_log DEFAULT;
GRANT SELECT ON accounting_log TO admit_app;
GRANT INSERT ON accounting_log TO admit_cell;
GRANT SELECT, DELETE ON accounting_log TO admit_worker;
GRANT USAGE ON SEQUENCE accounting_log_id_seq TO admit_cell;

-- Decisions by minute (60 seconds) and by hour (3600 seconds), so that charts need not read auth_log.
-- The columns say what happened to the device: `verdict` in auth_log can differ in monitor mode.
-- Shippers write both periods with auth_log, so there are no foreign keys.
CREATE TABLE decision_counts (
    tenant_id uuid NOT NULL,
    seconds int NOT NULL CONSTRAINT ck_decision_counts_seconds CHECK (seconds IN (60, 3600)),
    start_at timestamptz NOT NULL,
    permitted bigint NOT NULL,
    quarantined bigint NOT NULL,
    rejected bigint NOT NULL,
    CONSTRAINT pk_decision_counts PRIMARY KEY (tenant_id, seconds, start_at)
) WITH (fillfactor = 70);
GRANT SELECT, DELETE ON decision_counts TO admit_app, admit_worker;
GRANT SELECT, INSERT ON decision_counts TO admit_cell;
GRANT UPDATE (permitted, quarantined, rejected) ON decision_counts TO admit_cell;

-- The rejects of decision_counts by reason. A table of its own, because the list of all tenants
-- reads the hours of each tenant, and must not read a row for each reason.
CREATE TABLE reject_counts (
    tenant_id uuid NOT NULL,
    seconds int NOT NULL CONSTRAINT ck_reject_counts_seconds CHECK (seconds IN (60, 3600)),
    start_at timestamptz NOT NULL,
    reason text NOT NULL,
    rejected bigint NOT NULL,
    CONSTRAINT pk_reject_counts PRIMARY KEY (tenant_id, seconds, start_at, reason)
) WITH (fillfactor = 70);
GRANT SELECT, DELETE ON reject_counts TO admit_app, admit_worker;
GRANT SELECT, INSERT ON reject_counts TO admit_cell;
GRANT UPDATE (rejected) ON reject_counts TO admit_cell;
