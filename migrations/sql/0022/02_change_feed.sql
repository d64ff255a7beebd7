-- As before, and a device hears, too, that its last address was released. By EXCEPT, for a plan that was made for one row is kept
-- for thousands: as a join it compared each row with each.
CREATE OR REPLACE FUNCTION record_pool_change() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    IF TG_OP = 'UPDATE' THEN
        INSERT INTO replica_changes (tenant_id, noun, key)
        SELECT DISTINCT ready.tenant_id, 'pool', ready.pool_id::text
        FROM (
            (
                SELECT tenant_id, pool_id, number, cell_id, grant_number, leaving, reserved_for FROM old_rows WHERE state = 'stock'
                EXCEPT
                SELECT tenant_id, pool_id, number, cell_id, grant_number, leaving, reserved_for FROM new_rows WHERE state = 'stock'
            ) UNION ALL (
                SELECT tenant_id, pool_id, number, cell_id, grant_number, leaving, reserved_for FROM new_rows WHERE state = 'stock'
                EXCEPT
                SELECT tenant_id, pool_id, number, cell_id, grant_number, leaving, reserved_for FROM old_rows WHERE state = 'stock'
            )
        ) ready
        UNION
        SELECT lease.tenant_id, 'pool-lease', lease.pool_id || ':' || replace(told.mac::text, ':', '')
        FROM (
            (
                SELECT tenant_id, pool_id, number, state = 'free', state = 'stock', cell_id, grant_number, mac, leaving, reserved_for, released
                FROM old_rows
                EXCEPT
                SELECT tenant_id, pool_id, number, state = 'free', state = 'stock', cell_id, grant_number, mac, leaving, reserved_for, released
                FROM new_rows
            ) UNION ALL (
                SELECT tenant_id, pool_id, number, state = 'free', state = 'stock', cell_id, grant_number, mac, leaving, reserved_for, released
                FROM new_rows
                EXCEPT
                SELECT tenant_id, pool_id, number, state = 'free', state = 'stock', cell_id, grant_number, mac, leaving, reserved_for, released
                FROM old_rows
            )
        ) lease
        CROSS JOIN LATERAL unnest(ARRAY[lease.mac, lease.reserved_for]) AS told (mac)
        WHERE told.mac IS NOT NULL;
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
