ALTER TABLE secret_rotations ENABLE ROW LEVEL SECURITY;
CREATE POLICY tenant_scope ON secret_rotations TO admit_app, admit_worker
    USING (tenant_id = scope_tenant_id())
    WITH CHECK (tenant_id = scope_tenant_id());
-- Includes tenants that are about to arrive, because radiusd is configured before.
CREATE POLICY cell_scope ON secret_rotations TO admit_cell
    USING (tenant_id IN (
        SELECT unnest(ARRAY[s.tenant_id, s.reserved_for]) FROM slots s WHERE s.cell_id = scope_cell_id()
    ));

ALTER TABLE secret_sightings ENABLE ROW LEVEL SECURITY;
CREATE POLICY tenant_scope ON secret_sightings TO admit_app, admit_worker
    USING (tenant_id = scope_tenant_id())
    WITH CHECK (tenant_id = scope_tenant_id());
CREATE POLICY cell_scope ON secret_sightings TO admit_cell
    USING (tenant_id IN (SELECT s.tenant_id FROM slots s WHERE s.cell_id = scope_cell_id()))
    WITH CHECK (tenant_id IN (SELECT s.tenant_id FROM slots s WHERE s.cell_id = scope_cell_id()));
