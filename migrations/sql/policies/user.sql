ALTER TABLE users ENABLE ROW LEVEL SECURITY;
CREATE POLICY tenant_scope ON users TO admit_app, admit_worker
    USING (tenant_id = scope_tenant_id())
    WITH CHECK (tenant_id = scope_tenant_id());
CREATE POLICY cell_scope ON users FOR SELECT TO admit_cell
    USING (tenant_id IN (SELECT s.tenant_id FROM slots s WHERE s.cell_id = scope_cell_id()));

ALTER TABLE user_groups ENABLE ROW LEVEL SECURITY;
CREATE POLICY tenant_scope ON user_groups TO admit_app, admit_worker
    USING (tenant_id = scope_tenant_id())
    WITH CHECK (tenant_id = scope_tenant_id());
CREATE POLICY cell_scope ON user_groups FOR SELECT TO admit_cell
    USING (tenant_id IN (SELECT s.tenant_id FROM slots s WHERE s.cell_id = scope_cell_id()));

ALTER TABLE user_group_members ENABLE ROW LEVEL SECURITY;
CREATE POLICY tenant_scope ON user_group_members TO admit_app, admit_worker
    USING (tenant_id = scope_tenant_id())
    WITH CHECK (tenant_id = scope_tenant_id());
CREATE POLICY cell_scope ON user_group_members FOR SELECT TO admit_cell
    USING (tenant_id IN (SELECT s.tenant_id FROM slots s WHERE s.cell_id = scope_cell_id()));

ALTER TABLE identity_sources ENABLE ROW LEVEL SECURITY;
CREATE POLICY tenant_scope ON identity_sources TO admit_app, admit_worker
    USING (tenant_id = scope_tenant_id())
    WITH CHECK (tenant_id = scope_tenant_id());
CREATE POLICY cell_scope ON identity_sources FOR SELECT TO admit_cell
    USING (tenant_id IN (SELECT s.tenant_id FROM slots s WHERE s.cell_id = scope_cell_id()));
