ALTER TABLE msps ENABLE ROW LEVEL SECURITY;
CREATE POLICY msp_scope ON msps TO admit_app, admit_worker
    USING (scope_is_platform() OR id = scope_msp_id())
    WITH CHECK (scope_is_platform() OR id = scope_msp_id());
-- A person sees the MSPs of their memberships, to read their names.
CREATE POLICY person_scope ON msps FOR SELECT TO admit_app
    USING (
        scope_person_id() IS NOT NULL
        AND id IN (SELECT m.msp_id FROM memberships m WHERE m.person_id = scope_person_id())
    );

ALTER TABLE tenants ENABLE ROW LEVEL SECURITY;
CREATE POLICY tenant_scope ON tenants TO admit_app, admit_public, admit_worker
    USING (id = scope_tenant_id() OR scope_is_platform() OR msp_id = scope_msp_id())
    WITH CHECK (id = scope_tenant_id() OR scope_is_platform() OR msp_id = scope_msp_id());
CREATE POLICY cell_scope ON tenants FOR SELECT TO admit_cell
    USING (id IN (SELECT s.tenant_id FROM slots s WHERE s.cell_id = scope_cell_id()));
-- A cell configures radiusd before the tenant arrives, to avoid a restart.
CREATE POLICY cell_reserved ON tenants FOR SELECT TO admit_cell
    USING (id IN (SELECT s.reserved_for FROM slots s WHERE s.cell_id = scope_cell_id()));
CREATE POLICY person_scope ON tenants FOR SELECT TO admit_app
    USING (scope_person_id() IS NOT NULL AND id IN (SELECT tenants_of_person()));

ALTER TABLE purged_tenants ENABLE ROW LEVEL SECURITY;
CREATE POLICY platform_scope ON purged_tenants TO admit_worker USING (scope_is_platform());

ALTER TABLE tenant_moves ENABLE ROW LEVEL SECURITY;
CREATE POLICY tenant_scope ON tenant_moves TO admit_app, admit_worker
    USING (tenant_id = scope_tenant_id())
    WITH CHECK (tenant_id = scope_tenant_id());
