-- By statement, because thousands of addresses become ready together. A device's record includes
-- the release of its last address. EXCEPT instead of a join: a plan for one row would compare
-- all pairs of thousands.
CREATE OR REPLACE FUNCTION record_pool_change() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    IF TG_OP = 'UPDATE' THEN
        INSERT INTO replica_changes (tenant_id, noun, key)
        SELECT DISTINCT ready.tenant_id, 'pool', ready.pool_id::text
        FROM (
            (
                SELECT tenant_id, pool_id, number, cell_id, grant_number, leaving, reserved_for
                FROM old_rows WHERE state = 'stock'
                EXCEPT
                SELECT tenant_id, pool_id, number, cell_id, grant_number, leaving, reserved_for
                FROM new_rows WHERE state = 'stock'
            ) UNION ALL (
                SELECT tenant_id, pool_id, number, cell_id, grant_number, leaving, reserved_for
                FROM new_rows WHERE state = 'stock'
                EXCEPT
                SELECT tenant_id, pool_id, number, cell_id, grant_number, leaving, reserved_for
                FROM old_rows WHERE state = 'stock'
            )
        ) ready
        UNION
        SELECT lease.tenant_id, 'pool-lease', lease.pool_id || ':' || replace(device.mac::text, ':', '')
        FROM (
            (
                SELECT tenant_id, pool_id, number, state = 'free', state = 'stock', cell_id, grant_number, mac,
                    leaving, reserved_for, released
                FROM old_rows
                EXCEPT
                SELECT tenant_id, pool_id, number, state = 'free', state = 'stock', cell_id, grant_number, mac,
                    leaving, reserved_for, released
                FROM new_rows
            ) UNION ALL (
                SELECT tenant_id, pool_id, number, state = 'free', state = 'stock', cell_id, grant_number, mac,
                    leaving, reserved_for, released
                FROM new_rows
                EXCEPT
                SELECT tenant_id, pool_id, number, state = 'free', state = 'stock', cell_id, grant_number, mac,
                    leaving, reserved_for, released
                FROM old_rows
            )
        ) lease
        CROSS JOIN LATERAL unnest(ARRAY[lease.mac, lease.reserved_for]) AS device (mac)
        WHERE device.mac IS NOT NULL;
    ELSE
        INSERT INTO replica_changes (tenant_id, noun, key)
        SELECT DISTINCT c.tenant_id, 'pool-lease', c.pool_id || ':' || replace(device.mac::text, ':', '')
        FROM changed_rows c CROSS JOIN LATERAL unnest(ARRAY[c.mac, c.reserved_for]) AS device (mac)
        WHERE device.mac IS NOT NULL;
    END IF;
    IF FOUND THEN
        PERFORM pg_notify('replica_changes', '');
    END IF;
    RETURN NULL;
END
$$;

-- Only for pools of the calling cell. Their claims are in a file of the cell, so no trigger sees them.
CREATE OR REPLACE FUNCTION tell_pool_changes(pool_ids uuid[]) RETURNS void
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    INSERT INTO replica_changes (tenant_id, noun, key)
    SELECT p.tenant_id, 'pool', p.id::text FROM pools p
    WHERE p.id = ANY (pool_ids) AND p.tenant_id IN (SELECT s.tenant_id FROM slots s WHERE s.cell_id = scope_cell_id());
    PERFORM pg_notify('replica_changes', '');
END
$$;
GRANT EXECUTE ON FUNCTION tell_pool_changes TO admit_cell;

-- Deletes free addresses that left their pool, and empty pools in removal. Only for tenants of
-- the calling cell. A cell can delete no other rows of pools.
CREATE OR REPLACE FUNCTION clear_away_pools() RETURNS void
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    served uuid[] := ARRAY(SELECT s.tenant_id FROM slots s WHERE s.cell_id = scope_cell_id()
        AND s.tenant_id IS NOT NULL);
BEGIN
    DELETE FROM pool_addresses a USING (
        SELECT l.pool_id, l.number FROM pool_addresses l
        WHERE l.tenant_id = ANY (served) AND l.leaving AND l.state = 'free'
        ORDER BY l.pool_id, l.number FOR UPDATE SKIP LOCKED
    ) gone
    WHERE a.pool_id = gone.pool_id AND a.number = gone.number;
    DELETE FROM pools p
    WHERE p.tenant_id = ANY (served) AND p.removing
        AND NOT EXISTS (SELECT FROM pool_addresses a WHERE a.pool_id = p.id);
END
$$;
GRANT EXECUTE ON FUNCTION clear_away_pools() TO admit_cell;

-- Whether a NAS reports a usable address or prefix. Unusable ones (RFC 6890) count as none.
-- 255.255.255.254 and .255 request an address (RFC 2865 5.8). Devices choose 169.254.0.0/16 and
-- fe80::/10 on their own.
CREATE OR REPLACE FUNCTION tells_address(told inet) RETURNS boolean
    LANGUAGE sql IMMUTABLE AS $$
    SELECT told IS NOT NULL AND NOT told <<= ANY (
        '{0.0.0.0/8, 127.0.0.0/8, 169.254.0.0/16, 224.0.0.0/3, ::/96, ::ffff:0:0/96, fe80::/10, ff00::/8}'::inet[]
    ) AND NOT told >>= '::/96'
$$;
GRANT EXECUTE ON FUNCTION tells_address TO admit_app, admit_cell, admit_worker;

-- Live sessions that hold a pool address. First those of the last device that report it or none,
-- then other devices' that report it.
--
-- The planner rated all partial indexes alike without statistics of live sessions, and read all
-- rows of a tenant. An order that only one index has forces the choice. A column compared with
-- `=` would drop out of the order, hence BETWEEN (docs/adr/0014).
CREATE OR REPLACE FUNCTION pool_address_holders(of_tenant uuid, of_kind text, of_address inet, of_mac macaddr)
    RETURNS TABLE (mac macaddr)
    LANGUAGE sql STABLE AS $$
    (
        SELECT s.mac FROM sessions s CROSS JOIN LATERAL (
            SELECT CASE of_kind
                WHEN 'ipv4' THEN s.framed_ip WHEN 'ipv6' THEN s.framed_prefix ELSE s.delegated_prefix END AS address
        ) told
        WHERE s.tenant_id = of_tenant AND s.mac BETWEEN of_mac AND of_mac AND s.stopped_at IS NULL
            AND (told.address = of_address OR tells_address(told.address) IS NOT TRUE)
        ORDER BY s.mac
    ) UNION ALL (
        SELECT s.mac FROM sessions s
        WHERE s.tenant_id = of_tenant AND s.framed_ip BETWEEN of_address AND of_address AND s.stopped_at IS NULL
            AND of_kind = 'ipv4'
        ORDER BY s.framed_ip
    ) UNION ALL (
        SELECT s.mac FROM sessions s
        WHERE s.tenant_id = of_tenant AND s.framed_prefix BETWEEN of_address AND of_address AND s.stopped_at IS NULL
            AND of_kind = 'ipv6'
        ORDER BY s.framed_prefix
    ) UNION ALL (
        SELECT s.mac FROM sessions s
        WHERE s.tenant_id = of_tenant AND s.delegated_prefix BETWEEN of_address AND of_address AND s.stopped_at IS NULL
            AND of_kind = 'delegated'
        ORDER BY s.delegated_prefix
    )
$$;
GRANT EXECUTE ON FUNCTION pool_address_holders TO admit_app, admit_cell, admit_worker;

-- The same, except for addresses free since the moment or later: a cell that lags behind may
-- still give them out.
CREATE OR REPLACE FUNCTION clear_away_pools(nobodys_until timestamptz) RETURNS void
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    served uuid[] := ARRAY(SELECT s.tenant_id FROM slots s WHERE s.cell_id = scope_cell_id()
        AND s.tenant_id IS NOT NULL);
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
GRANT EXECUTE ON FUNCTION clear_away_pools(timestamptz) TO admit_cell;
