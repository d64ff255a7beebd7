-- Whose rows a transaction sees, from settings that nac.db.session_scope makes local to it.
CREATE FUNCTION scope_tenant_id() RETURNS uuid LANGUAGE sql STABLE PARALLEL SAFE AS
    $$ SELECT nullif(current_setting('admit.tenant_id', true), '')::uuid $$;
CREATE FUNCTION scope_msp_id() RETURNS uuid LANGUAGE sql STABLE PARALLEL SAFE AS
    $$ SELECT nullif(current_setting('admit.msp_id', true), '')::uuid $$;
CREATE FUNCTION scope_cell_id() RETURNS int LANGUAGE sql STABLE PARALLEL SAFE AS
    $$ SELECT nullif(current_setting('admit.cell_id', true), '')::int $$;
CREATE FUNCTION scope_is_platform() RETURNS boolean LANGUAGE sql STABLE PARALLEL SAFE AS
    $$ SELECT coalesce(current_setting('admit.platform', true), '') = 'on' $$;

-- Rows of tenants: app and worker see those of the tenant in scope.
DO $$
DECLARE
    owned name;
BEGIN
    FOREACH owned IN ARRAY ARRAY[
        'sites', 'nases', 'endpoints', 'endpoint_groups', 'endpoint_group_members', 'endpoint_sightings', 'users', 'user_groups',
        'user_group_members', 'certificate_authorities', 'certificates', 'policies', 'policy_versions', 'auth_log',
        'accounting_log', 'sessions'
    ]::name[] LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', owned);
        EXECUTE format(
            'CREATE POLICY tenant_scope ON %I TO admit_app, admit_worker '
            'USING (tenant_id = scope_tenant_id()) WITH CHECK (tenant_id = scope_tenant_id())',
            owned
        );
    END LOOP;
    -- A cell reads what its replica mirrors, of the tenants that hold a slot of it ...
    FOREACH owned IN ARRAY ARRAY[
        'sites', 'nases', 'endpoints', 'endpoint_groups', 'endpoint_group_members', 'users', 'user_groups', 'user_group_members',
        'certificate_authorities', 'certificates', 'policies', 'policy_versions'
    ]::name[] LOOP
        EXECUTE format(
            'CREATE POLICY cell_scope ON %I FOR SELECT TO admit_cell '
            'USING (tenant_id IN (SELECT s.tenant_id FROM slots s WHERE s.cell_id = scope_cell_id()))',
            owned
        );
    END LOOP;
    -- ... and writes what its journal tells of them, ...
    FOREACH owned IN ARRAY ARRAY['auth_log', 'accounting_log', 'sessions', 'endpoint_sightings']::name[] LOOP
        EXECUTE format(
            'CREATE POLICY cell_scope ON %I TO admit_cell '
            'USING (tenant_id IN (SELECT s.tenant_id FROM slots s WHERE s.cell_id = scope_cell_id())) '
            'WITH CHECK (tenant_id IN (SELECT s.tenant_id FROM slots s WHERE s.cell_id = scope_cell_id()))',
            owned
        );
    END LOOP;
    -- ... in its own name.
    FOREACH owned IN ARRAY ARRAY['auth_log', 'accounting_log']::name[] LOOP
        EXECUTE format(
            'CREATE POLICY cell_in_its_own_name ON %I AS RESTRICTIVE FOR INSERT TO admit_cell WITH CHECK (cell_id = scope_cell_id())',
            owned
        );
    END LOOP;
END
$$;

-- A partition is reached through its table alone: no role has a grant on it, and no policy opens it.
ALTER TABLE auth_log_default ENABLE ROW LEVEL SECURITY;
ALTER TABLE accounting_log_default ENABLE ROW LEVEL SECURITY;

ALTER TABLE msps ENABLE ROW LEVEL SECURITY;
CREATE POLICY msp_scope ON msps TO admit_app, admit_worker
    USING (scope_is_platform() OR id = scope_msp_id()) WITH CHECK (scope_is_platform() OR id = scope_msp_id());

ALTER TABLE tenants ENABLE ROW LEVEL SECURITY;
CREATE POLICY tenant_scope ON tenants TO admit_app, admit_worker
    USING (id = scope_tenant_id() OR scope_is_platform() OR msp_id = scope_msp_id())
    WITH CHECK (id = scope_tenant_id() OR scope_is_platform() OR msp_id = scope_msp_id());
CREATE POLICY cell_scope ON tenants FOR SELECT TO admit_cell
    USING (id IN (SELECT s.tenant_id FROM slots s WHERE s.cell_id = scope_cell_id()));

ALTER TABLE audit_log ENABLE ROW LEVEL SECURITY;
CREATE POLICY audit_scope ON audit_log TO admit_app, admit_worker
    USING (tenant_id = scope_tenant_id() OR msp_id = scope_msp_id() OR scope_is_platform())
    WITH CHECK (tenant_id = scope_tenant_id() OR msp_id = scope_msp_id() OR scope_is_platform());

ALTER TABLE cells ENABLE ROW LEVEL SECURITY;
CREATE POLICY platform_scope ON cells TO admit_app, admit_worker
    USING (scope_is_platform() OR id IN (SELECT s.cell_id FROM slots s WHERE s.tenant_id = scope_tenant_id()))
    WITH CHECK (scope_is_platform());
CREATE POLICY cell_scope ON cells TO admit_cell USING (id = scope_cell_id()) WITH CHECK (id = scope_cell_id());

ALTER TABLE slots ENABLE ROW LEVEL SECURITY;
CREATE POLICY platform_scope ON slots TO admit_app, admit_worker
    USING (scope_is_platform() OR tenant_id = scope_tenant_id()) WITH CHECK (scope_is_platform());
CREATE POLICY cell_scope ON slots TO admit_cell USING (cell_id = scope_cell_id()) WITH CHECK (cell_id = scope_cell_id());
-- Who holds a slot decides what a cell may read: a cell makes free slots, it gives itself no tenant.
CREATE POLICY cell_takes_no_tenant ON slots AS RESTRICTIVE FOR INSERT TO admit_cell WITH CHECK (tenant_id IS NULL);

ALTER TABLE journal_positions ENABLE ROW LEVEL SECURITY;
CREATE POLICY cell_scope ON journal_positions TO admit_cell USING (cell_id = scope_cell_id()) WITH CHECK (cell_id = scope_cell_id());
CREATE POLICY platform_scope ON journal_positions FOR SELECT TO admit_app, admit_worker USING (scope_is_platform());

-- Of no tenant but by accident: a cell sees what it set aside, the worker deletes what belonged to tenants that are gone.
ALTER TABLE quarantined_records ENABLE ROW LEVEL SECURITY;
CREATE POLICY cell_scope ON quarantined_records TO admit_cell USING (cell_id = scope_cell_id()) WITH CHECK (cell_id = scope_cell_id());
CREATE POLICY platform_scope ON quarantined_records TO admit_app, admit_worker USING (scope_is_platform());

ALTER TABLE purged_tenants ENABLE ROW LEVEL SECURITY;
CREATE POLICY platform_scope ON purged_tenants TO admit_worker USING (scope_is_platform());

-- Slots carry their cell, so that a cell learns of a tenant that has just left it.
ALTER TABLE replica_changes ENABLE ROW LEVEL SECURITY;
CREATE POLICY cell_scope ON replica_changes FOR SELECT TO admit_cell USING (
    cell_id = scope_cell_id()
    OR (cell_id IS NULL AND (tenant_id IS NULL OR tenant_id IN (SELECT s.tenant_id FROM slots s WHERE s.cell_id = scope_cell_id())))
);
CREATE POLICY platform_scope ON replica_changes TO admit_worker USING (scope_is_platform());
