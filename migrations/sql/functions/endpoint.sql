-- The worker processes one tenant at a time. The first row of each tenant suffices, and an index
-- has it.
CREATE OR REPLACE FUNCTION tenants_with_endpoint_work() RETURNS SETOF uuid
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
    SELECT t.id FROM tenants t
    WHERE (SELECT w.id FROM endpoint_work w WHERE w.tenant_id = t.id ORDER BY w.id LIMIT 1) IS NOT NULL
        OR EXISTS (SELECT FROM endpoint_groups g WHERE g.tenant_id = t.id AND g.rule_cursor IS NOT NULL)
$$;
GRANT EXECUTE ON FUNCTION tenants_with_endpoint_work TO admit_worker;

-- Tens of thousands of devices can change together, from a file or on an office's first morning.
-- So it runs once per statement, and only for columns that cells use. Otherwise like
-- record_replica_change. A trigger's plan comes from the first statement of a connection: for
-- one device. With a nested loop it would compare ten thousand rows with each other.
CREATE OR REPLACE FUNCTION record_endpoint_changes() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp
    SET enable_nestloop = off AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        INSERT INTO replica_changes (tenant_id, noun, key)
        SELECT e.tenant_id, 'endpoint', replica_change_key('endpoint', e.mac::text) FROM added e;
    ELSIF TG_OP = 'DELETE' THEN
        INSERT INTO replica_changes (tenant_id, noun, key)
        SELECT e.tenant_id, 'endpoint', replica_change_key('endpoint', e.mac::text) FROM gone e;
    ELSE
        INSERT INTO replica_changes (tenant_id, noun, key)
        SELECT DISTINCT w.tenant_id, 'endpoint', replica_change_key('endpoint', w.mac::text)
        FROM before b JOIN changed c ON c.id = b.id
        CROSS JOIN LATERAL (VALUES (b.tenant_id, b.mac), (c.tenant_id, c.mac)) w (tenant_id, mac)
        WHERE (
            b.tenant_id, b.mac, b.name, b.status, b.valid_until, b.attributes, b.vendor, b.found_profile,
            b.found_confidence, b.set_profile, b.os, b.first_seen_at, b.posture, b.psk_sealed
        ) IS DISTINCT FROM (
            c.tenant_id, c.mac, c.name, c.status, c.valid_until, c.attributes, c.vendor, c.found_profile,
            c.found_confidence, c.set_profile, c.os, c.first_seen_at, c.posture, c.psk_sealed
        );
    END IF;
    IF FOUND THEN
        PERFORM pg_notify('replica_changes', '');
    END IF;
    RETURN NULL;
END
$$;

-- Like record_member_change. A deleted member's own trigger records it.
CREATE OR REPLACE FUNCTION record_endpoint_member_changes() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    INSERT INTO replica_changes (tenant_id, noun, key)
    SELECT e.tenant_id, 'endpoint', replica_change_key('endpoint', e.mac::text)
    -- OFFSET 0 forces a lookup by key instead of a scan of all endpoints.
    FROM members m CROSS JOIN LATERAL (SELECT * FROM endpoints WHERE id = m.endpoint_id OFFSET 0) e;
    IF FOUND THEN
        PERFORM pg_notify('replica_changes', '');
    END IF;
    RETURN NULL;
END
$$;

-- Records of members include the name and passphrase of the group. A group can be renamed unless
-- a policy uses its name (nac.inventory.groups).
CREATE OR REPLACE FUNCTION record_endpoint_group_change() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    INSERT INTO replica_changes (tenant_id, noun, key)
    SELECT m.tenant_id, 'endpoint', replica_change_key('endpoint', e.mac::text)
    FROM endpoint_group_members m JOIN endpoints e ON e.id = m.endpoint_id
    WHERE m.group_id = NEW.id;
    PERFORM pg_notify('replica_changes', '');
    RETURN NULL;
END
$$;

-- Devices of several tenants, for the search: by MAC address from `first` to `last`, or by a part of the name. `named`
-- is the name, `pattern` the pattern for ILIKE. NULL finds nothing. The best come first: exact before other matches,
-- then the last seen. Reads at most 1,000 rows of each kind. Each LIMIT in a LATERAL makes
-- PostgreSQL read the index once per tenant.
CREATE OR REPLACE FUNCTION search_endpoints(
    tenants uuid[], first macaddr, last macaddr, named text, pattern text, most int
) RETURNS TABLE (
    tenant_id uuid, mac macaddr, name text, status text, owner text, vendor text, profile text, seen_at timestamptz,
    is_exact boolean
)
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = public, pg_temp SET plan_cache_mode = force_custom_plan AS $$
#variable_conflict use_column
BEGIN
    tenants := tenants_in_scope(tenants);
    RETURN QUERY
    WITH found AS (
        (
            SELECT e.id FROM unnest(tenants) t (id) CROSS JOIN LATERAL (
                SELECT e.id FROM endpoints e WHERE e.tenant_id = t.id AND e.mac BETWEEN first AND last
                ORDER BY e.mac LIMIT most
            ) e LIMIT 1000
        )
        UNION
        (
            SELECT e.id FROM endpoints e
            WHERE e.tenant_id = ANY (tenants) AND e.name ILIKE pattern AND e.name <> '' LIMIT 1000
        )
    )
    SELECT e.tenant_id, e.mac, e.name, e.status, e.owner, e.vendor,
        CASE WHEN e.set_profile <> '' THEN e.set_profile ELSE e.found_profile END,
        coalesce(s.last_seen_at, e.first_seen_at, e.created_at),
        coalesce(first = last AND e.mac = first, false) OR coalesce(lower(e.name) = lower(named), false)
    FROM found CROSS JOIN LATERAL (SELECT * FROM endpoints e WHERE e.id = found.id LIMIT 1) e
    LEFT JOIN LATERAL (
        SELECT s.last_seen_at FROM endpoint_sightings s WHERE s.tenant_id = e.tenant_id AND s.mac = e.mac LIMIT 1
    ) s ON true
    ORDER BY 9 DESC, 8 DESC, e.mac LIMIT most;
END
$$;
GRANT EXECUTE ON FUNCTION search_endpoints TO admit_app;
