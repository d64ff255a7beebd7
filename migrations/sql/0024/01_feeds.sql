-- How many rows of the mark that is delivered in part were there.
ALTER TABLE feeds ADD COLUMN mark_rows bigint NOT NULL DEFAULT 0;
-- The address and the headers of a webhook.
ALTER TABLE feeds ADD COLUMN private_sealed bytea;
GRANT UPDATE (private_sealed) ON feeds TO admit_app;
GRANT UPDATE (mark_rows) ON feeds TO admit_worker;

-- A feed that wants nothing of what others wait for reads nothing of it.
DROP INDEX ix_feed_marks_tenant_id_xact;
CREATE INDEX ix_feed_marks_tenant_id_source_xact ON feed_marks (tenant_id, source, xact);
-- By which replays read.
CREATE INDEX ix_audit_log_tenant_id_at_id ON audit_log (tenant_id, at, id);
CREATE INDEX ix_coa_requests_tenant_id_created_at_id ON coa_requests (tenant_id, created_at, id);

-- Whether there is a mark that a feed has to deliver, of none that its window holds.
CREATE FUNCTION feed_waits(f feeds) RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT EXISTS (
        SELECT FROM unnest(f.sources) source CROSS JOIN LATERAL (
            SELECT m.id FROM feed_marks m
            WHERE m.tenant_id = f.tenant_id AND m.source = source.source AND m.xact >= pg_snapshot_xmin(f.done::pg_snapshot)
                AND NOT pg_visible_in_snapshot(m.xact, f.done::pg_snapshot) AND (m.feed_id IS NULL OR m.feed_id = f.id)
            -- By the index, whatever is kept for others that are behind.
            ORDER BY m.tenant_id, m.source, m.xact LIMIT 1
        ) waiting
    )
$$;

CREATE OR REPLACE FUNCTION feeds_due() RETURNS TABLE (id uuid, tenant_id uuid, failing boolean)
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
    SELECT f.id, f.tenant_id, f.failing_since IS NOT NULL FROM feeds f
    WHERE f.status = 'active' AND f.next_attempt_at <= clock_timestamp() AND (f.until IS NOT NULL OR feed_waits(f))
    ORDER BY f.attempted_at NULLS FIRST
$$;

-- A feed that is far behind is left one mark of each hour and table, for it alone, instead of all that wait. What a worker
-- sends of them meanwhile may be sent again; its position of before finds none of the old ones.
CREATE FUNCTION fold_feed_marks(most int) RETURNS TABLE (tenant_id uuid, slug text, folded bigint)
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    f feeds;
    waiting bigint;
BEGIN
    FOR f IN SELECT * FROM feeds ORDER BY feeds.id LOOP
        -- Those that were folded are locked: the rest is left for the next time.
        EXIT WHEN clock_timestamp() > now() + interval '2 seconds';
        SELECT count(*) INTO waiting FROM (
            SELECT FROM feed_marks m
            WHERE m.tenant_id = f.tenant_id AND m.xact >= pg_snapshot_xmin(f.done::pg_snapshot) AND feed_wants(f, m) AND NOT feed_has(f, m)
            LIMIT most + 1
        ) marks;
        CONTINUE WHEN waiting <= most;
        SELECT * INTO f FROM feeds WHERE feeds.id = f.id FOR UPDATE;
        CONTINUE WHEN NOT FOUND;
        -- One statement, so that what is folded and what counts as done are of one snapshot, in which the new marks are not.
        WITH old AS (
            SELECT m.* FROM feed_marks m
            WHERE m.tenant_id = f.tenant_id AND m.xact >= pg_snapshot_xmin(f.done::pg_snapshot) AND feed_wants(f, m) AND NOT feed_has(f, m)
        ), made AS (
            INSERT INTO feed_marks (tenant_id, feed_id, at, source, first_at, last_at, first_row, last_row, events)
            SELECT f.tenant_id, f.id, max(o.at), o.source, min(o.first_at), max(o.last_at), min(o.first_row), max(o.last_row),
                CASE WHEN bool_and(o.events IS NOT NULL) THEN least(sum(o.events), 2147483647) END
            FROM old o GROUP BY o.source, date_trunc('hour', o.first_at, 'UTC') ORDER BY min(o.id)
        )
        UPDATE feeds SET done = pg_current_snapshot()::text, until = NULL, mark = 0, mark_at = NULL, mark_row = 0, mark_rows = 0
        WHERE feeds.id = f.id;
        tenant_id := f.tenant_id;
        slug := f.slug;
        SELECT count(*) INTO folded FROM feed_marks m WHERE m.tenant_id = f.tenant_id AND m.feed_id = f.id AND m.xact = pg_current_xact_id();
        RETURN NEXT;
    END LOOP;
END
$$;

-- A feed for which nothing waits is where everything is delivered that is visible now.
CREATE FUNCTION advance_idle_feeds() RETURNS void
    LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = public, pg_temp AS $$
    UPDATE feeds f SET done = pg_current_snapshot()::text WHERE f.until IS NULL AND NOT feed_waits(f)
$$;

-- Marks that nobody needs go; those older than `keep` go in any case, and what was not delivered of them is counted.
CREATE OR REPLACE FUNCTION prune_feed_marks(keep interval) RETURNS TABLE (tenant_id uuid, slug text, dropped bigint)
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    DELETE FROM feed_marks m WHERE NOT EXISTS (
        SELECT FROM feeds f WHERE f.tenant_id = m.tenant_id AND feed_wants(f, m) AND NOT feed_has(f, m)
    );
    RETURN QUERY
    WITH gone AS (
        DELETE FROM feed_marks m WHERE m.at < now() - keep RETURNING m.*
    ), missed AS (
        SELECT f.id, sum(greatest(
            coalesce(g.events, 0) - CASE WHEN g.id = f.mark AND f.mark_at IS NOT NULL THEN f.mark_rows ELSE 0 END, 0
        ))::bigint AS events
        FROM gone g JOIN feeds f ON f.tenant_id = g.tenant_id
        WHERE feed_wants(f, g) AND NOT feed_has(f, g) GROUP BY f.id
    )
    UPDATE feeds f SET lost = f.lost + x.events FROM missed x WHERE f.id = x.id RETURNING f.tenant_id, f.slug, x.events;
END
$$;
REVOKE EXECUTE ON FUNCTION feed_waits(feeds), fold_feed_marks(int), advance_idle_feeds() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION feed_waits(feeds), fold_feed_marks(int), advance_idle_feeds() TO admit_worker;
