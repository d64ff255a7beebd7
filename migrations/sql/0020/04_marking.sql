-- Writes down what has changed of what sessions were decided by, for tenants that want it. Whoever changes something
-- pays nothing for it: the feed that cells follow is read, by what became visible since (ADR 0001).
CREATE OR REPLACE FUNCTION collect_redecision_marks() RETURNS void
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    before pg_snapshot;
    upto pg_snapshot;
    last timestamptz;
BEGIN
    -- Nothing was looked through yet: what is to come counts.
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
    -- In a database that was restored, transactions that are waited for may be those of the one before it.
    IF pg_snapshot_xmax(before) > pg_snapshot_xmax(upto) THEN
        UPDATE redecision_marks SET xact = NULL WHERE xact >= pg_snapshot_xmax(upto);
        UPDATE coa_requests SET after_xact = NULL
        WHERE state IN ('queued', 'sending') AND after_xact >= pg_snapshot_xmax(upto);
    END IF;
    -- The feed is kept for a day: after a longer silence, or in a database that was restored, it does not tell all.
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
