-- A cell asks whether packets with a wrong secret are of a self-test, which sends one.
CREATE POLICY cell_scope ON self_tests FOR SELECT TO admit_cell
    USING (tenant_id IN (SELECT s.tenant_id FROM slots s WHERE s.cell_id = scope_cell_id()));
GRANT SELECT (tenant_id, state, due_at, ended_at) ON self_tests TO admit_cell;
