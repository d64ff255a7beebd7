-- Converts changes into marks, for tenants with re-decisions. It reads the change feed of the
-- cells by snapshot (ADR 0001), so writers have no extra work.
CREATE OR REPLACE FUNCTION collect_redecision_marks() RETURNS void
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    before pg_snapshot;
    upto pg_snapshot;
    last timestamptz;
BEGIN
    -- The first call only stores the position.
    INSERT INTO redecision_position VALUES (1, pg_current_snapshot()) ON CONFLICT DO NOTHING;
    SELECT p.position, p.looked_at INTO before, last FROM redecision_position p FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    upto := pg_current_snapshot();
    INSERT INTO redecision_marks (tenant_id, noun, key, xact)
    SELECT DISTINCT ON (c.tenant_id, c.noun, c.key) c.tenant_id, c.noun, c.key, c.xact
    FROM replica_changes c JOIN tenants t ON t.id = c.tenant_id
    LEFT JOIN redecision_settings s ON s.tenant_id = c.tenant_id
    WHERE c.xact >= pg_snapshot_xmin(before)
        AND NOT pg_visible_in_snapshot(c.xact, before) AND pg_visible_in_snapshot(c.xact, upto)
        AND c.noun IN (
            'policy', 'site', 'nas', 'authority', 'tenant', 'endpoint', 'user', 'certificate', 'external-status'
        )
        AND coalesce(s.mode, 'send') <> 'off'
    ORDER BY c.tenant_id, c.noun, c.key, c.xact DESC;
    WITH due AS (
        UPDATE redecision_settings s SET looked_at = now()
        WHERE s.every_minutes > 0 AND s.mode <> 'off' AND s.looked_at <= now() - s.every_minutes * interval '1 minute'
        RETURNING s.tenant_id
    )
    INSERT INTO redecision_marks (tenant_id, noun, key) SELECT due.tenant_id, 'time', '' FROM due;
    -- In a restored database, awaited transactions may be those of its predecessor.
    IF pg_snapshot_xmax(before) > pg_snapshot_xmax(upto) THEN
        UPDATE redecision_marks SET xact = NULL WHERE xact >= pg_snapshot_xmax(upto);
        UPDATE coa_requests SET after_xact = NULL
        WHERE state IN ('queued', 'sending') AND after_xact >= pg_snapshot_xmax(upto);
    END IF;
    -- The feed keeps a day. It is incomplete after a longer pause or in a restored database.
    IF last < now() - interval '12 hours' OR pg_snapshot_xmax(before) > pg_snapshot_xmax(upto) THEN
        INSERT INTO redecision_marks (tenant_id, noun, key)
        SELECT t.id, 'silence', '' FROM tenants t LEFT JOIN redecision_settings s ON s.tenant_id = t.id
        WHERE coalesce(s.mode, 'send') <> 'off';
    END IF;
    IF upto::text <> before::text OR last < now() - interval '1 minute' THEN
        UPDATE redecision_position SET position = upto, looked_at = now();
    END IF;
END
$$;
GRANT EXECUTE ON FUNCTION collect_redecision_marks TO admit_worker;

-- Tenants with due marks or runs in progress. Marks are not due while the tenant's cell lacks
-- the change, or the tenant has no cell. Otherwise a cell that is down would cost ten statements
-- per tenant and second. The first mark of each tenant comes from an index.
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
            AND (
                m.noun <> 'late' AND m.noun NOT LIKE '%-again'
                OR p.shipped_until IS NULL OR p.shipped_until >= m.due_at
            )
    ) OR EXISTS (SELECT FROM redecisions r WHERE r.tenant_id = p.id AND r.state IN ('deciding', 'sending'))
$$;
GRANT EXECUTE ON FUNCTION tenants_to_redecide TO admit_worker;

-- The last change of a tenant that its cell has not applied. NULL: none.
CREATE OR REPLACE FUNCTION unfollowed_change(tenant uuid) RETURNS xid8
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
    SELECT c.xact FROM slots s JOIN cells ON cells.id = s.cell_id CROSS JOIN LATERAL (
        SELECT r.xact FROM replica_changes r
        WHERE r.tenant_id = tenant AND r.xact >= pg_snapshot_xmin(cells.replica_position::pg_snapshot)
            AND NOT pg_visible_in_snapshot(r.xact, cells.replica_position::pg_snapshot)
        ORDER BY r.xact DESC LIMIT 1
    ) c WHERE s.tenant_id = tenant
$$;
GRANT EXECUTE ON FUNCTION unfollowed_change TO admit_worker;

-- Tenants whose runs wait for approval. The worker checks whether the runs still have effects.
CREATE OR REPLACE FUNCTION tenants_with_waiting_redecisions() RETURNS SETOF uuid
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
    SELECT DISTINCT r.tenant_id FROM redecisions r JOIN tenants t ON t.id = r.tenant_id
    WHERE r.state = 'waiting' AND t.status = 'active'
$$;
GRANT EXECUTE ON FUNCTION tenants_with_waiting_redecisions TO admit_worker;

-- Whether collect_redecision_marks() has work.
CREATE OR REPLACE FUNCTION redecision_marks_wait() RETURNS boolean
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    before pg_snapshot;
    last timestamptz;
BEGIN
    SELECT p.position, p.looked_at INTO before, last FROM redecision_position p;
    -- An old position makes each check slower.
    RETURN before IS NULL OR last < now() - interval '1 minute'
        OR pg_snapshot_xmax(before) > pg_snapshot_xmax(pg_current_snapshot())
        OR EXISTS (
            SELECT FROM replica_changes c
            WHERE c.xact >= pg_snapshot_xmin(before) AND NOT pg_visible_in_snapshot(c.xact, before)
        )
        OR EXISTS (
            SELECT FROM redecision_settings s
            WHERE s.every_minutes > 0 AND s.mode <> 'off'
                AND s.looked_at <= now() - s.every_minutes * interval '1 minute'
        );
END
$$;
