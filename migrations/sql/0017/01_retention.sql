-- A log by its name: which table it is, by which column a row has its day, and whether it has a partition for each day.
CREATE FUNCTION log_table(log text, OUT parent name, OUT key name, OUT partitioned boolean)
    LANGUAGE sql IMMUTABLE STRICT AS $$
    SELECT l.parent::name, l.key::name, l.parent <> 'coa_requests'
    FROM (VALUES
        ('auth', 'auth_log', 'at'), ('accounting', 'accounting_log', 'at'), ('sessions', 'session_history', 'stopped_at'),
        ('usage', 'usage_hours', 'hour'), ('coa', 'coa_requests', 'created_at')
    ) AS l (log, parent, key) WHERE l.log = log_table.log
$$;
REVOKE EXECUTE ON FUNCTION log_table(text) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION log_table(text) TO admit_worker;

-- What the platform allows its tenants; a log without a row has the limits that the product comes with.
CREATE TABLE retention_limits (
    log text CONSTRAINT pk_retention_limits PRIMARY KEY
        CONSTRAINT ck_retention_limits_log CHECK (log IN ('auth', 'accounting', 'sessions', 'usage', 'coa')),
    floor_days int NOT NULL,
    default_days int NOT NULL,
    ceiling_days int NOT NULL,
    ceiling_bytes bigint CONSTRAINT ck_retention_limits_bytes CHECK (ceiling_bytes > 0),
    CONSTRAINT ck_retention_limits_order CHECK (2 <= floor_days AND floor_days <= default_days AND default_days <= ceiling_days)
);
ALTER TABLE retention_limits ENABLE ROW LEVEL SECURITY;
CREATE POLICY read_by_all ON retention_limits FOR SELECT TO admit_app, admit_worker USING (true);
CREATE POLICY platform_scope ON retention_limits TO admit_app
    USING (scope_is_platform()) WITH CHECK (scope_is_platform());
GRANT SELECT ON retention_limits TO admit_app, admit_worker;
GRANT INSERT, UPDATE, DELETE ON retention_limits TO admit_app;

-- What a tenant chose; NULL leaves it to the platform.
CREATE TABLE retention_settings (
    tenant_id uuid NOT NULL CONSTRAINT fk_retention_settings_tenant_id REFERENCES tenants ON DELETE CASCADE,
    log text NOT NULL CONSTRAINT ck_retention_settings_log CHECK (log IN ('auth', 'accounting', 'sessions', 'usage', 'coa')),
    days int CONSTRAINT ck_retention_settings_days CHECK (days > 0),
    bytes bigint CONSTRAINT ck_retention_settings_bytes CHECK (bytes > 0),
    -- Each day is exported so before it is deleted, which waits for that so long.
    export_format text CONSTRAINT ck_retention_settings_export_format CHECK (export_format IN ('csv', 'jsonl', 'parquet')),
    export_wait_days int NOT NULL DEFAULT 7
        CONSTRAINT ck_retention_settings_export_wait_days CHECK (export_wait_days BETWEEN 1 AND 30),
    CONSTRAINT pk_retention_settings PRIMARY KEY (tenant_id, log)
);
GRANT SELECT, INSERT, UPDATE, DELETE ON retention_settings TO admit_app;
GRANT SELECT ON retention_settings TO admit_worker;

-- Days (both included) that must not be deleted; without a bound from the first or to the last, and of all logs where
-- none is named. A tenant whose hold is in force is not removed either: there is no cascade.
CREATE TABLE retention_holds (
    id bigint CONSTRAINT pk_retention_holds PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    tenant_id uuid NOT NULL CONSTRAINT fk_retention_holds_tenant_id REFERENCES tenants,
    log text CONSTRAINT ck_retention_holds_log CHECK (log IN ('auth', 'accounting', 'sessions', 'usage', 'coa')),
    first_day date,
    last_day date,
    reason text NOT NULL,
    set_by text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    cleared_at timestamptz,
    cleared_by text NOT NULL DEFAULT '',
    CONSTRAINT ck_retention_holds_order CHECK (first_day <= last_day)
);
CREATE INDEX ix_retention_holds_tenant_id ON retention_holds (tenant_id);
GRANT SELECT, INSERT, DELETE ON retention_holds TO admit_app;
GRANT UPDATE (cleared_at, cleared_by) ON retention_holds TO admit_app;
GRANT SELECT ON retention_holds TO admit_worker;

-- What somebody must know of: a budget that is nearly used up, an export that deletion waits for.
CREATE TABLE retention_notices (
    tenant_id uuid NOT NULL CONSTRAINT fk_retention_notices_tenant_id REFERENCES tenants ON DELETE CASCADE,
    log text NOT NULL,
    kind text NOT NULL CONSTRAINT ck_retention_notices_kind CHECK (kind IN ('budget', 'export')),
    since timestamptz NOT NULL,
    -- When the first day is deleted early, or without having been exported.
    expected_on date,
    detail text NOT NULL,
    CONSTRAINT pk_retention_notices PRIMARY KEY (tenant_id, log, kind)
);
GRANT SELECT ON retention_notices TO admit_app;
GRANT SELECT, INSERT, UPDATE, DELETE ON retention_notices TO admit_worker;

-- Estimates, made by measure_log().
CREATE TABLE log_sizes (
    tenant_id uuid NOT NULL CONSTRAINT fk_log_sizes_tenant_id REFERENCES tenants ON DELETE CASCADE,
    log text NOT NULL,
    day date NOT NULL,
    rows bigint NOT NULL,
    bytes bigint NOT NULL,
    CONSTRAINT pk_log_sizes PRIMARY KEY (tenant_id, log, day)
);
CREATE INDEX ix_log_sizes_log_day ON log_sizes (log, day);
GRANT SELECT ON log_sizes TO admit_app;
GRANT SELECT, DELETE ON log_sizes TO admit_worker;
-- When a partition was measured, and how many rows had been inserted into it by then: as long as that stays, it is not
-- measured again. The day is 0001-01-01 for what has no partition of its own.
CREATE TABLE log_measures (
    log text NOT NULL,
    day date NOT NULL,
    inserted bigint NOT NULL,
    measured_at timestamptz NOT NULL,
    CONSTRAINT pk_log_measures PRIMARY KEY (log, day)
);
ALTER TABLE log_measures ENABLE ROW LEVEL SECURITY;
CREATE POLICY platform_scope ON log_measures FOR SELECT TO admit_worker USING (scope_is_platform());
GRANT SELECT ON log_measures TO admit_worker;
