ALTER TABLE sites ENABLE ROW LEVEL SECURITY;
CREATE POLICY tenant_scope ON sites TO admit_app, admit_worker
    USING (tenant_id = scope_tenant_id())
    WITH CHECK (tenant_id = scope_tenant_id());
CREATE POLICY cell_scope ON sites FOR SELECT TO admit_cell
    USING (tenant_id IN (SELECT s.tenant_id FROM slots s WHERE s.cell_id = scope_cell_id()));

ALTER TABLE nases ENABLE ROW LEVEL SECURITY;
CREATE POLICY tenant_scope ON nases TO admit_app, admit_worker
    USING (tenant_id = scope_tenant_id())
    WITH CHECK (tenant_id = scope_tenant_id());
CREATE POLICY cell_scope ON nases FOR SELECT TO admit_cell
    USING (tenant_id IN (SELECT s.tenant_id FROM slots s WHERE s.cell_id = scope_cell_id()));
CREATE POLICY cell_reserved ON nases FOR SELECT TO admit_cell
    USING (tenant_id IN (SELECT s.reserved_for FROM slots s WHERE s.cell_id = scope_cell_id()));

ALTER TABLE nas_signatures ENABLE ROW LEVEL SECURITY;
CREATE POLICY tenant_scope ON nas_signatures TO admit_app, admit_worker
    USING (tenant_id = scope_tenant_id())
    WITH CHECK (tenant_id = scope_tenant_id());
CREATE POLICY cell_scope ON nas_signatures TO admit_cell
    USING (tenant_id IN (SELECT s.tenant_id FROM slots s WHERE s.cell_id = scope_cell_id()))
    WITH CHECK (tenant_id IN (SELECT s.tenant_id FROM slots s WHERE s.cell_id = scope_cell_id()));

ALTER TABLE nas_sightings ENABLE ROW LEVEL SECURITY;
CREATE POLICY tenant_scope ON nas_sightings TO admit_app, admit_worker
    USING (tenant_id = scope_tenant_id())
    WITH CHECK (tenant_id = scope_tenant_id());
CREATE POLICY cell_scope ON nas_sightings TO admit_cell
    USING (tenant_id IN (SELECT s.tenant_id FROM slots s WHERE s.cell_id = scope_cell_id()))
    WITH CHECK (tenant_id IN (SELECT s.tenant_id FROM slots s WHERE s.cell_id = scope_cell_id()));
