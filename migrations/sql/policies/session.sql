ALTER TABLE sessions ENABLE ROW LEVEL SECURITY;
CREATE POLICY tenant_scope ON sessions TO admit_app, admit_worker
    USING (tenant_id = scope_tenant_id())
    WITH CHECK (tenant_id = scope_tenant_id());
CREATE POLICY cell_scope ON sessions TO admit_cell
    USING (tenant_id IN (SELECT s.tenant_id FROM slots s WHERE s.cell_id = scope_cell_id()))
    WITH CHECK (tenant_id IN (SELECT s.tenant_id FROM slots s WHERE s.cell_id = scope_cell_id()));

ALTER TABLE session_history ENABLE ROW LEVEL SECURITY;
CREATE POLICY tenant_scope ON session_history TO admit_app, admit_worker
    USING (tenant_id = scope_tenant_id())
    WITH CHECK (tenant_id = scope_tenant_id());
-- Agents move ended sessions here.
CREATE POLICY cell_scope ON session_history FOR INSERT TO admit_cell
    WITH CHECK (tenant_id IN (SELECT s.tenant_id FROM slots s WHERE s.cell_id = scope_cell_id()));

ALTER TABLE session_history_default ENABLE ROW LEVEL SECURITY;

ALTER TABLE nas_restarts ENABLE ROW LEVEL SECURITY;
CREATE POLICY tenant_scope ON nas_restarts TO admit_app, admit_worker
    USING (tenant_id = scope_tenant_id())
    WITH CHECK (tenant_id = scope_tenant_id());
CREATE POLICY cell_scope ON nas_restarts TO admit_cell
    USING (tenant_id IN (SELECT s.tenant_id FROM slots s WHERE s.cell_id = scope_cell_id()))
    WITH CHECK (tenant_id IN (SELECT s.tenant_id FROM slots s WHERE s.cell_id = scope_cell_id()));

ALTER TABLE usage_hours ENABLE ROW LEVEL SECURITY;
CREATE POLICY tenant_scope ON usage_hours TO admit_app, admit_worker
    USING (tenant_id = scope_tenant_id())
    WITH CHECK (tenant_id = scope_tenant_id());
CREATE POLICY cell_scope ON usage_hours FOR INSERT TO admit_cell
    WITH CHECK (tenant_id IN (SELECT s.tenant_id FROM slots s WHERE s.cell_id = scope_cell_id()));

ALTER TABLE usage_hours_default ENABLE ROW LEVEL SECURITY;
