-- What is in force of a tenant's log, part by part, and the less that was announced in its place: days, the floor below
-- them, bytes (2^62 for no budget), and whether a day waits for its export (1 or 0). Less takes effect only so long after
-- `announced_at`, more at once.
CREATE TABLE retention_terms (
    tenant_id uuid NOT NULL CONSTRAINT fk_retention_terms_tenant_id REFERENCES tenants ON DELETE CASCADE,
    log text NOT NULL CONSTRAINT ck_retention_terms_log CHECK (log IN ('auth', 'accounting', 'sessions', 'usage', 'coa')),
    part text NOT NULL CONSTRAINT ck_retention_terms_part CHECK (part IN ('days', 'floor', 'bytes', 'export')),
    value bigint NOT NULL,
    announced bigint,
    announced_at timestamptz,
    CONSTRAINT pk_retention_terms PRIMARY KEY (tenant_id, log, part),
    CONSTRAINT ck_retention_terms_announced CHECK (announced < value AND (announced IS NULL) = (announced_at IS NULL))
);
GRANT SELECT, INSERT, UPDATE ON retention_terms TO admit_app, admit_worker;

ALTER TABLE retention_notices DROP CONSTRAINT ck_retention_notices_kind;
ALTER TABLE retention_notices ADD CONSTRAINT ck_retention_notices_kind CHECK (kind IN ('budget', 'change', 'export'));

-- As before; a hold that was cleared keeps for a week more what it kept.
CREATE OR REPLACE FUNCTION log_is_wanted(relation regclass, which text, of_day date, given_up uuid[]) RETURNS boolean
    LANGUAGE plpgsql STABLE SET search_path = public, pg_temp AS $$
DECLARE
    tenant uuid := '00000000-0000-0000-0000-000000000000';
BEGIN
    LOOP
        EXECUTE format('SELECT tenant_id FROM %s WHERE tenant_id > $1 ORDER BY tenant_id LIMIT 1', relation)
            INTO tenant USING tenant;
        IF tenant IS NULL THEN
            RETURN false;
        END IF;
        IF EXISTS (SELECT FROM tenants WHERE id = tenant) AND (
            NOT tenant = ANY (given_up) OR EXISTS (
                SELECT FROM retention_holds h
                WHERE h.tenant_id = tenant AND coalesce(h.cleared_at, 'infinity') > now() - interval '7 days'
                    AND coalesce(h.log, which) = which
                    AND of_day BETWEEN coalesce(h.first_day, '-infinity') AND coalesce(h.last_day, 'infinity')
            )
        ) THEN
            RETURN true;
        END IF;
    END LOOP;
END
$$;

-- Rows of a day that went early so far, until the audit log has them all.
CREATE TABLE early_deletions (
    tenant_id uuid NOT NULL CONSTRAINT fk_early_deletions_tenant_id REFERENCES tenants ON DELETE CASCADE,
    log text NOT NULL,
    day date NOT NULL,
    rows bigint NOT NULL,
    CONSTRAINT pk_early_deletions PRIMARY KEY (tenant_id, log, day)
);
GRANT SELECT ON early_deletions TO admit_app;
GRANT SELECT, INSERT, UPDATE, DELETE ON early_deletions TO admit_worker;

-- The time of the last turn of retention, as the database has it, and until when its clock is not believed. One row.
CREATE TABLE retention_clock (
    id boolean CONSTRAINT pk_retention_clock PRIMARY KEY DEFAULT true CONSTRAINT ck_retention_clock_id CHECK (id),
    seen_at timestamptz NOT NULL,
    doubted_until timestamptz
);
ALTER TABLE retention_clock ENABLE ROW LEVEL SECURITY;
CREATE POLICY platform_scope ON retention_clock TO admit_app, admit_worker
    USING (scope_is_platform()) WITH CHECK (scope_is_platform());
GRANT SELECT, UPDATE (doubted_until) ON retention_clock TO admit_app;
GRANT SELECT, INSERT, UPDATE ON retention_clock TO admit_worker;

-- What is wrong with the platform beside its cells, which tell of themselves in cells.alarms.
CREATE TABLE platform_alarms (
    code text CONSTRAINT pk_platform_alarms PRIMARY KEY,
    detail text NOT NULL,
    since timestamptz NOT NULL
);
ALTER TABLE platform_alarms ENABLE ROW LEVEL SECURITY;
CREATE POLICY platform_scope ON platform_alarms TO admit_app, admit_worker
    USING (scope_is_platform()) WITH CHECK (scope_is_platform());
GRANT SELECT ON platform_alarms TO admit_app;
GRANT SELECT, INSERT, UPDATE, DELETE ON platform_alarms TO admit_worker;
