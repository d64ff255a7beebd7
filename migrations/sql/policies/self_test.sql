ALTER TABLE self_tests ENABLE ROW LEVEL SECURITY;
CREATE POLICY tenant_scope ON self_tests TO admit_app, admit_worker
    USING (tenant_id = scope_tenant_id())
    WITH CHECK (tenant_id = scope_tenant_id());
-- Packets with a wrong secret may come from a self-test. The cell checks this.
CREATE POLICY cell_scope ON self_tests FOR SELECT TO admit_cell
    USING (tenant_id IN (SELECT s.tenant_id FROM slots s WHERE s.cell_id = scope_cell_id()));
