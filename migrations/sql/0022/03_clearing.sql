-- As without a moment: but what nobody has only since then stays, for a cell that has not heard yet that it left may give it.
CREATE FUNCTION clear_away_pools(nobodys_until timestamptz) RETURNS void
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    served uuid[] := ARRAY(SELECT s.tenant_id FROM slots s WHERE s.cell_id = scope_cell_id() AND s.tenant_id IS NOT NULL);
BEGIN
    DELETE FROM pool_addresses a USING (
        SELECT l.pool_id, l.number FROM pool_addresses l
        WHERE l.tenant_id = ANY (served) AND l.leaving AND l.state = 'free' AND coalesce(l.until < nobodys_until, true)
        ORDER BY l.pool_id, l.number FOR UPDATE SKIP LOCKED
    ) gone
    WHERE a.pool_id = gone.pool_id AND a.number = gone.number;
    DELETE FROM pools p
    WHERE p.tenant_id = ANY (served) AND p.removing
        AND NOT EXISTS (SELECT FROM pool_addresses a WHERE a.pool_id = p.id);
END
$$;
REVOKE EXECUTE ON FUNCTION clear_away_pools(timestamptz) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION clear_away_pools(timestamptz) TO admit_cell;
