-- Of marks that nobody can take yet, since the cell does not decide with the change (or has not stored what a late session
-- would be of), or since the tenant is on no cell, none is a reason to look: while a cell is away that was some ten
-- statements of each of its tenants in each second.
CREATE OR REPLACE FUNCTION tenants_to_redecide() RETURNS SETOF uuid
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
    WITH placed AS MATERIALIZED (
        SELECT t.id, c.replica_position::pg_snapshot AS position, c.shipped_until
        FROM tenants t LEFT JOIN (slots s JOIN cells c ON c.id = s.cell_id) ON s.tenant_id = t.id
        WHERE t.status = 'active'
    )
    SELECT p.id FROM placed p WHERE EXISTS (
        SELECT FROM redecision_marks m WHERE m.tenant_id = p.id AND m.due_at <= now()
            AND (m.xact IS NULL OR pg_visible_in_snapshot(m.xact, p.position))
            AND (m.noun <> 'late' AND m.noun NOT LIKE '%-again' OR p.shipped_until IS NULL OR p.shipped_until >= m.due_at)
    ) OR EXISTS (SELECT FROM redecisions r WHERE r.tenant_id = p.id AND r.state IN ('deciding', 'sending'))
$$;
