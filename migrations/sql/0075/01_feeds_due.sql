-- A feed is looked at closely where its tenant has a mark of a table that it follows which may be newer than what it has:
-- of very many feeds few are. The newest mark of each tenant and table is found by the index, one step for each of them,
-- however many marks are kept; whatever waits for a feed is as new as the oldest that it may not have, and the newest is
-- no older than that.
CREATE OR REPLACE FUNCTION feeds_due() RETURNS TABLE (id uuid, tenant_id uuid, failing boolean)
    -- Or the planner, who expects few of either, reads all feeds of a tenant for each of its tables (docs/adr/0014).
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp SET enable_nestloop = off AS $$
    WITH RECURSIVE newest AS (
        (SELECT m.tenant_id, m.source, m.xact FROM feed_marks m ORDER BY m.tenant_id DESC, m.source DESC, m.xact DESC LIMIT 1)
        UNION ALL
        SELECT next.tenant_id, next.source, next.xact FROM newest n CROSS JOIN LATERAL (
            SELECT m.tenant_id, m.source, m.xact FROM feed_marks m
            WHERE (m.tenant_id, m.source) < (n.tenant_id, n.source)
            ORDER BY m.tenant_id DESC, m.source DESC, m.xact DESC LIMIT 1
        ) next
    ), asked AS MATERIALIZED (
        SELECT f.id, f.tenant_id, f.sources, f.until, pg_snapshot_xmin(f.done::pg_snapshot) AS has_all_before
        FROM feeds f WHERE f.status = 'active' AND f.next_attempt_at <= clock_timestamp()
    ), close AS (
        SELECT a.id FROM asked a WHERE a.until IS NOT NULL
        UNION
        SELECT a.id FROM asked a JOIN newest n ON n.tenant_id = a.tenant_id
        WHERE n.xact >= a.has_all_before AND n.source = ANY (a.sources)
    )
    SELECT f.id, f.tenant_id, f.failing_since IS NOT NULL FROM feeds f
    WHERE f.id = ANY (ARRAY(SELECT c.id FROM close c)) AND (f.until IS NOT NULL OR feed_waits(f))
    ORDER BY f.attempted_at NULLS FIRST
$$;
