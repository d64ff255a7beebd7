ALTER TABLE cells ENABLE ROW LEVEL SECURITY;
CREATE POLICY cell_scope ON cells TO admit_cell
    USING (id = scope_cell_id())
    WITH CHECK (id = scope_cell_id());
CREATE POLICY platform_scope ON cells TO admit_app, admit_worker
    USING (scope_is_platform() OR id IN (SELECT s.cell_id FROM slots s WHERE s.tenant_id = scope_tenant_id()))
    WITH CHECK (scope_is_platform());

ALTER TABLE slots ENABLE ROW LEVEL SECURITY;
CREATE POLICY cell_scope ON slots TO admit_cell
    USING (cell_id = scope_cell_id())
    WITH CHECK (cell_id = scope_cell_id());
CREATE POLICY platform_scope ON slots TO admit_app, admit_worker
    USING (scope_is_platform() OR tenant_id = scope_tenant_id())
    WITH CHECK (scope_is_platform());
-- A slot's tenant is readable by its cell. So a cell creates only free slots.
CREATE POLICY cell_takes_no_tenant ON slots AS RESTRICTIVE FOR INSERT TO admit_cell
    WITH CHECK (tenant_id IS NULL);
-- The tenant's own slot, and the slot that it moves to.
CREATE POLICY own_reserved ON slots FOR SELECT TO admit_app USING (reserved_for = scope_tenant_id());
CREATE POLICY own_secret ON slots FOR UPDATE TO admit_app
    USING (scope_tenant_id() IN (tenant_id, reserved_for))
    WITH CHECK (scope_tenant_id() IN (tenant_id, reserved_for));

ALTER TABLE journal_positions ENABLE ROW LEVEL SECURITY;
CREATE POLICY cell_scope ON journal_positions TO admit_cell
    USING (cell_id = scope_cell_id())
    WITH CHECK (cell_id = scope_cell_id());
CREATE POLICY platform_scope ON journal_positions FOR SELECT TO admit_app, admit_worker
    USING (scope_is_platform());

-- A cell sees its own records. The worker deletes records of deleted tenants.
ALTER TABLE quarantined_records ENABLE ROW LEVEL SECURITY;
CREATE POLICY cell_scope ON quarantined_records TO admit_cell
    USING (cell_id = scope_cell_id())
    WITH CHECK (cell_id = scope_cell_id());
CREATE POLICY platform_scope ON quarantined_records TO admit_app, admit_worker USING (scope_is_platform());

-- Changes of slots include the cell, so a cell learns when a tenant leaves it.
ALTER TABLE replica_changes ENABLE ROW LEVEL SECURITY;
CREATE POLICY cell_scope ON replica_changes FOR SELECT TO admit_cell
    USING (
        cell_id = scope_cell_id()
        OR (
            cell_id IS NULL AND (
                tenant_id IS NULL
                OR tenant_id IN (SELECT s.tenant_id FROM slots s WHERE s.cell_id = scope_cell_id())
            )
        )
    );
CREATE POLICY platform_scope ON replica_changes TO admit_worker USING (scope_is_platform());

ALTER TABLE platform_alarms ENABLE ROW LEVEL SECURITY;
CREATE POLICY platform_scope ON platform_alarms TO admit_app, admit_worker
    USING (scope_is_platform())
    WITH CHECK (scope_is_platform());
