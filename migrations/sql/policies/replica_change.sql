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
