-- Limits of the platform for its tenants. A log without a row has the built-in limits.
CREATE TABLE retention_limits (
    log text
        CONSTRAINT pk_retention_limits PRIMARY KEY
        CONSTRAINT ck_retention_limits_log CHECK (log IN ('auth', 'accounting', 'sessions', 'usage', 'coa')),
    floor_days int NOT NULL,
    default_days int NOT NULL,
    ceiling_days int NOT NULL,
    ceiling_bytes bigint CONSTRAINT ck_retention_limits_bytes CHECK (ceiling_bytes > 0),
    CONSTRAINT ck_retention_limits_order CHECK (
        2 <= floor_days AND floor_days <= default_days AND default_days <= ceiling_days
    )
);
GRANT SELECT, INSERT, UPDATE, DELETE ON retention_limits TO admit_app;
GRANT SELECT ON retention_limits TO admit_worker;

-- A tenant's settings. NULL: the platform's default.
CREATE TABLE retention_settings (
    tenant_id uuid NOT NULL CONSTRAINT fk_retention_settings_tenant_id REFERENCES tenants ON DELETE CASCADE,
    log text NOT NULL
        CONSTRAINT ck_retention_settings_log CHECK (
            log IN ('auth', 'accounting', 'sessions', 'usage', 'coa')
        ),
    days int CONSTRAINT ck_retention_settings_days CHECK (days > 0),
    bytes bigint CONSTRAINT ck_retention_settings_bytes CHECK (bytes > 0),
    -- Format of the export of each day before deletion. Deletion waits for the export.
    export_format text
        CONSTRAINT ck_retention_settings_export_format CHECK (export_format IN ('csv', 'jsonl', 'parquet')),
    CONSTRAINT pk_retention_settings PRIMARY KEY (tenant_id, log)
);
GRANT SELECT, INSERT, UPDATE, DELETE ON retention_settings TO admit_app;
GRANT SELECT ON retention_settings TO admit_worker;

-- Days (both included) that must not be deleted. A missing bound is open. Without `log`: all
-- logs. No cascade, because a hold also prevents the deletion of its tenant.
CREATE TABLE retention_holds (
    id bigint CONSTRAINT pk_retention_holds PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    tenant_id uuid NOT NULL CONSTRAINT fk_retention_holds_tenant_id REFERENCES tenants,
    log text
        CONSTRAINT ck_retention_holds_log CHECK (log IN ('auth', 'accounting', 'sessions', 'usage', 'coa')),
    first_day date,
    last_day date,
    reason text NOT NULL,
    set_by text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    cleared_at timestamptz,
    cleared_by text NOT NULL DEFAULT '',
    CONSTRAINT ck_retention_holds_order CHECK (first_day <= last_day)
);
CREATE INDEX ix_retention_holds_tenant_id ON retention_holds (tenant_id, created_at, id);
GRANT SELECT, INSERT, DELETE ON retention_holds TO admit_app;
-- The worker deletes tenants.
GRANT SELECT, DELETE ON retention_holds TO admit_worker;
GRANT UPDATE (cleared_at, cleared_by) ON retention_holds TO admit_app;

-- Warnings: a budget that is nearly used up, an export that blocks deletion.
CREATE TABLE retention_notices (
    tenant_id uuid NOT NULL CONSTRAINT fk_retention_notices_tenant_id REFERENCES tenants ON DELETE CASCADE,
    log text NOT NULL,
    kind text NOT NULL CONSTRAINT ck_retention_notices_kind CHECK (kind IN ('budget', 'change', 'export')),
    since timestamptz NOT NULL,
    -- First day of an early deletion, or of one without an export.
    expected_on date,
    detail text NOT NULL,
    CONSTRAINT pk_retention_notices PRIMARY KEY (tenant_id, log, kind)
);
GRANT SELECT ON retention_notices TO admit_app;
GRANT SELECT, INSERT, UPDATE, DELETE ON retention_notices TO admit_worker;

-- Estimates by measure_log().
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

-- Time of a measurement, and the number of inserted rows then. An unchanged number needs no new
-- measurement. The day is 0001-01-01 for rows outside daily partitions.
CREATE TABLE log_measures (
    log text NOT NULL,
    day date NOT NULL,
    inserted bigint NOT NULL,
    measured_at timestamptz NOT NULL,
    CONSTRAINT pk_log_measures PRIMARY KEY (log, day)
);
GRANT SELECT ON log_measures TO admit_worker;

-- Terms in force for a tenant's log, and an announced reduction: days, their floor, bytes (2^62
-- for no budget), and whether a day waits for its export (1 or 0). A reduction takes effect some
-- time after `announced_at`, an extension immediately.
CREATE TABLE retention_terms (
    tenant_id uuid NOT NULL CONSTRAINT fk_retention_terms_tenant_id REFERENCES tenants ON DELETE CASCADE,
    log text NOT NULL
        CONSTRAINT ck_retention_terms_log CHECK (log IN ('auth', 'accounting', 'sessions', 'usage', 'coa')),
    part text NOT NULL
        CONSTRAINT ck_retention_terms_part CHECK (part IN ('days', 'floor', 'bytes', 'export')),
    value bigint NOT NULL,
    announced bigint,
    announced_at timestamptz,
    CONSTRAINT pk_retention_terms PRIMARY KEY (tenant_id, log, part),
    CONSTRAINT ck_retention_terms_announced CHECK (
        announced < value AND (announced IS NULL) = (announced_at IS NULL)
    )
);
GRANT SELECT, INSERT, UPDATE ON retention_terms TO admit_app, admit_worker;

-- Rows of a day that were deleted early, until the audit log has all of them.
CREATE TABLE early_deletions (
    tenant_id uuid NOT NULL CONSTRAINT fk_early_deletions_tenant_id REFERENCES tenants ON DELETE CASCADE,
    log text NOT NULL,
    day date NOT NULL,
    rows bigint NOT NULL,
    CONSTRAINT pk_early_deletions PRIMARY KEY (tenant_id, log, day)
);
GRANT SELECT ON early_deletions TO admit_app;
GRANT SELECT, INSERT, UPDATE, DELETE ON early_deletions TO admit_worker;

-- Database time of the last retention run, and the end of distrust in its clock. One row.
CREATE TABLE retention_clock (
    id boolean
        CONSTRAINT pk_retention_clock PRIMARY KEY DEFAULT true
        CONSTRAINT ck_retention_clock_id CHECK (id),
    seen_at timestamptz NOT NULL,
    doubted_until timestamptz
);
GRANT SELECT ON retention_clock TO admit_app;
GRANT SELECT, INSERT, UPDATE ON retention_clock TO admit_worker;
GRANT UPDATE (doubted_until) ON retention_clock TO admit_app;
