CREATE TRIGGER replica_change AFTER INSERT OR DELETE ON pools
    FOR EACH ROW EXECUTE FUNCTION record_replica_change('pool', 'id');
CREATE TRIGGER replica_update AFTER UPDATE ON pools FOR EACH ROW WHEN (OLD.* IS DISTINCT FROM NEW.*)
    EXECUTE FUNCTION record_replica_change('pool', 'id');

-- By statement: thousands of addresses are made ready at once. What tells of a device is the pool and its MAC address.
CREATE FUNCTION record_pool_change() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    IF TG_OP = 'UPDATE' THEN
        INSERT INTO replica_changes (tenant_id, noun, key)
        SELECT DISTINCT n.tenant_id, 'pool', n.pool_id::text
        FROM old_rows o JOIN new_rows n USING (pool_id, number)
        WHERE 'stock' IN (o.state, n.state)
            AND (o.state, o.cell_id, o.grant_number, o.leaving, o.reserved_for)
                IS DISTINCT FROM (n.state, n.cell_id, n.grant_number, n.leaving, n.reserved_for)
        UNION
        SELECT n.tenant_id, 'pool-lease', n.pool_id || ':' || replace(told.mac::text, ':', '')
        FROM old_rows o JOIN new_rows n USING (pool_id, number)
        CROSS JOIN LATERAL unnest(ARRAY[o.mac, n.mac, o.reserved_for, n.reserved_for]) AS told (mac)
        WHERE told.mac IS NOT NULL
            AND (o.state = 'free', o.state = 'stock', o.cell_id, o.grant_number, o.mac, o.leaving, o.reserved_for)
                IS DISTINCT FROM (n.state = 'free', n.state = 'stock', n.cell_id, n.grant_number, n.mac, n.leaving, n.reserved_for);
    ELSE
        INSERT INTO replica_changes (tenant_id, noun, key)
        SELECT DISTINCT c.tenant_id, 'pool-lease', c.pool_id || ':' || replace(told.mac::text, ':', '')
        FROM changed_rows c CROSS JOIN LATERAL unnest(ARRAY[c.mac, c.reserved_for]) AS told (mac)
        WHERE told.mac IS NOT NULL;
    END IF;
    IF FOUND THEN
        PERFORM pg_notify('replica_changes', '');
    END IF;
    RETURN NULL;
END
$$;
REVOKE EXECUTE ON FUNCTION record_pool_change() FROM PUBLIC;
CREATE TRIGGER replica_insert AFTER INSERT ON pool_addresses REFERENCING NEW TABLE AS changed_rows
    FOR EACH STATEMENT EXECUTE FUNCTION record_pool_change();
CREATE TRIGGER replica_delete AFTER DELETE ON pool_addresses REFERENCING OLD TABLE AS changed_rows
    FOR EACH STATEMENT EXECUTE FUNCTION record_pool_change();
CREATE TRIGGER replica_update AFTER UPDATE ON pool_addresses REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows
    FOR EACH STATEMENT EXECUTE FUNCTION record_pool_change();

-- What a cell says of its own pools that is not in the database: which file their claims are in.
CREATE FUNCTION tell_pool_changes(pool_ids uuid[]) RETURNS void
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    INSERT INTO replica_changes (tenant_id, noun, key)
    SELECT p.tenant_id, 'pool', p.id::text FROM pools p
    WHERE p.id = ANY (pool_ids) AND p.tenant_id IN (SELECT s.tenant_id FROM slots s WHERE s.cell_id = scope_cell_id());
    PERFORM pg_notify('replica_changes', '');
END
$$;
REVOKE EXECUTE ON FUNCTION tell_pool_changes(uuid[]) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION tell_pool_changes(uuid[]) TO admit_cell;
