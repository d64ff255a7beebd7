ALTER TABLE feeds ENABLE ROW LEVEL SECURITY;
CREATE POLICY tenant_scope ON feeds TO admit_app, admit_worker
    USING (tenant_id = scope_tenant_id())
    WITH CHECK (tenant_id = scope_tenant_id());

ALTER TABLE feed_marks ENABLE ROW LEVEL SECURITY;
CREATE POLICY tenant_scope ON feed_marks TO admit_app, admit_worker
    USING (tenant_id = scope_tenant_id())
    WITH CHECK (tenant_id = scope_tenant_id());

ALTER TABLE event_notes ENABLE ROW LEVEL SECURITY;
CREATE POLICY tenant_scope ON event_notes TO admit_app, admit_worker
    USING (tenant_id = scope_tenant_id())
    WITH CHECK (tenant_id = scope_tenant_id());
-- Live events of the cell's own tenants.
CREATE POLICY cell_scope ON event_notes FOR SELECT TO admit_cell
    USING (tenant_id IN (SELECT s.tenant_id FROM slots s WHERE s.cell_id = scope_cell_id()));

ALTER TABLE endpoint_expiries ENABLE ROW LEVEL SECURITY;
CREATE POLICY tenant_scope ON endpoint_expiries TO admit_app, admit_worker
    USING (tenant_id = scope_tenant_id())
    WITH CHECK (tenant_id = scope_tenant_id());
