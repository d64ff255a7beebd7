ALTER TABLE redecision_settings ENABLE ROW LEVEL SECURITY;
CREATE POLICY tenant_scope ON redecision_settings TO admit_app, admit_worker
    USING (tenant_id = scope_tenant_id())
    WITH CHECK (tenant_id = scope_tenant_id());

ALTER TABLE redecision_marks ENABLE ROW LEVEL SECURITY;
CREATE POLICY tenant_scope ON redecision_marks TO admit_app, admit_worker
    USING (tenant_id = scope_tenant_id())
    WITH CHECK (tenant_id = scope_tenant_id());

ALTER TABLE redecisions ENABLE ROW LEVEL SECURITY;
CREATE POLICY tenant_scope ON redecisions TO admit_app, admit_worker
    USING (tenant_id = scope_tenant_id())
    WITH CHECK (tenant_id = scope_tenant_id());

ALTER TABLE redecision_items ENABLE ROW LEVEL SECURITY;
CREATE POLICY tenant_scope ON redecision_items TO admit_app, admit_worker
    USING (tenant_id = scope_tenant_id())
    WITH CHECK (tenant_id = scope_tenant_id());

ALTER TABLE redecision_position ENABLE ROW LEVEL SECURITY;

ALTER TABLE redecision_failures ENABLE ROW LEVEL SECURITY;
CREATE POLICY tenant_scope ON redecision_failures TO admit_app, admit_worker
    USING (tenant_id = scope_tenant_id())
    WITH CHECK (tenant_id = scope_tenant_id());
-- The cell reports them as alarms.
CREATE POLICY cell_scope ON redecision_failures FOR SELECT TO admit_cell
    USING (tenant_id IN (SELECT s.tenant_id FROM slots s WHERE s.cell_id = scope_cell_id()));
