ALTER TABLE auth_log ENABLE ROW LEVEL SECURITY;
CREATE POLICY tenant_scope ON auth_log TO admit_app, admit_worker
    USING (tenant_id = scope_tenant_id())
    WITH CHECK (tenant_id = scope_tenant_id());
CREATE POLICY cell_scope ON auth_log TO admit_cell
    USING (tenant_id IN (SELECT s.tenant_id FROM slots s WHERE s.cell_id = scope_cell_id()))
    WITH CHECK (tenant_id IN (SELECT s.tenant_id FROM slots s WHERE s.cell_id = scope_cell_id()));
CREATE POLICY cell_in_its_own_name ON auth_log AS RESTRICTIVE FOR INSERT TO admit_cell
    WITH CHECK (cell_id = scope_cell_id());

-- No role has a grant on a partition, and no policy opens it. Access is through the parent
-- table.
ALTER TABLE auth_log_default ENABLE ROW LEVEL SECURITY;

ALTER TABLE accounting_log ENABLE ROW LEVEL SECURITY;
CREATE POLICY tenant_scope ON accounting_log TO admit_app, admit_worker
    USING (tenant_id = scope_tenant_id())
    WITH CHECK (tenant_id = scope_tenant_id());
CREATE POLICY cell_scope ON accounting_log TO admit_cell
    USING (tenant_id IN (SELECT s.tenant_id FROM slots s WHERE s.cell_id = scope_cell_id()))
    WITH CHECK (tenant_id IN (SELECT s.tenant_id FROM slots s WHERE s.cell_id = scope_cell_id()));
CREATE POLICY cell_in_its_own_name ON accounting_log AS RESTRICTIVE FOR INSERT TO admit_cell
    WITH CHECK (cell_id = scope_cell_id());

ALTER TABLE accounting_log_default ENABLE ROW LEVEL SECURITY;

ALTER TABLE decision_counts ENABLE ROW LEVEL SECURITY;
CREATE POLICY tenant_scope ON decision_counts TO admit_app, admit_worker
    USING (tenant_id = scope_tenant_id())
    WITH CHECK (tenant_id = scope_tenant_id());
CREATE POLICY cell_scope ON decision_counts TO admit_cell
    USING (tenant_id IN (SELECT s.tenant_id FROM slots s WHERE s.cell_id = scope_cell_id()))
    WITH CHECK (tenant_id IN (SELECT s.tenant_id FROM slots s WHERE s.cell_id = scope_cell_id()));

ALTER TABLE reject_counts ENABLE ROW LEVEL SECURITY;
CREATE POLICY tenant_scope ON reject_counts TO admit_app, admit_worker
    USING (tenant_id = scope_tenant_id())
    WITH CHECK (tenant_id = scope_tenant_id());
CREATE POLICY cell_scope ON reject_counts TO admit_cell
    USING (tenant_id IN (SELECT s.tenant_id FROM slots s WHERE s.cell_id = scope_cell_id()))
    WITH CHECK (tenant_id IN (SELECT s.tenant_id FROM slots s WHERE s.cell_id = scope_cell_id()));
