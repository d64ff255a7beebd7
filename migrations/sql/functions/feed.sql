-- Whether a feed has delivered a mark.
CREATE OR REPLACE FUNCTION feed_has(f feeds, m feed_marks) RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT pg_visible_in_snapshot(m.xact, f.done::pg_snapshot) OR coalesce(
        pg_visible_in_snapshot(m.xact, f.until::pg_snapshot)
            AND (m.id < f.mark OR (m.id = f.mark AND f.mark_at IS NULL)), false
    )
$$;
GRANT EXECUTE ON FUNCTION feed_has TO admit_app, admit_worker;

-- Whether a feed has to deliver a mark.
CREATE OR REPLACE FUNCTION feed_wants(f feeds, m feed_marks) RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT m.tenant_id = f.tenant_id AND m.source = ANY (f.sources) AND (m.feed_id IS NULL OR m.feed_id = f.id)
$$;
GRANT EXECUTE ON FUNCTION feed_wants TO admit_app, admit_worker;

-- By hour, so that one old record does not create a range of days.
CREATE OR REPLACE FUNCTION mark_for_feeds() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM feeds) THEN
        RETURN NULL;
    END IF;
    INSERT INTO feed_marks (tenant_id, source, first_at, last_at, first_row, last_row, events)
    SELECT a.tenant_id, TG_TABLE_NAME, min(a.at), max(a.at), min(a.id), max(a.id), count(*)
    FROM added a
    WHERE a.tenant_id IN (SELECT f.tenant_id FROM feeds f WHERE TG_TABLE_NAME = ANY (f.sources))
    GROUP BY a.tenant_id, date_trunc('hour', a.at, 'UTC')
    ORDER BY min(a.at);
    RETURN NULL;
END
$$;

-- A request to a NAS is one event, when it ends.
CREATE OR REPLACE FUNCTION mark_request_for_feeds() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    INSERT INTO feed_marks (tenant_id, source, first_at, last_at, first_row, last_row, events)
    SELECT NEW.tenant_id, TG_TABLE_NAME, NEW.created_at, NEW.created_at, NEW.id, NEW.id, 1
    WHERE EXISTS (SELECT FROM feeds f WHERE f.tenant_id = NEW.tenant_id AND TG_TABLE_NAME = ANY (f.sources));
    RETURN NULL;
END
$$;

-- Feeds with something to send. Only feeds with a possibly newer mark in a followed table are
-- checked in full. An index finds the newest mark of each tenant and table in one step, however
-- many marks exist.
CREATE OR REPLACE FUNCTION feeds_due() RETURNS TABLE (id uuid, tenant_id uuid, failing boolean)
    -- Otherwise the planner expects few rows, and reads all feeds of a tenant for each table (docs/adr/0014).
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp SET enable_nestloop = off AS $$
    WITH RECURSIVE newest AS (
        (SELECT m.tenant_id, m.source, m.xact FROM feed_marks m ORDER BY m.tenant_id DESC, m.source DESC,
            m.xact DESC LIMIT 1)
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
GRANT EXECUTE ON FUNCTION feeds_due TO admit_worker;

-- A database restored from a dump counts transactions from the start, so positions and marks are
-- wrong. Such feeds send everything with a mark again.
CREATE OR REPLACE FUNCTION restart_restored_feeds() RETURNS SETOF uuid
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM feeds
        WHERE pg_snapshot_xmax(done::pg_snapshot) > pg_snapshot_xmax(pg_current_snapshot())) THEN
        RETURN;
    END IF;
    UPDATE feed_marks SET xact = pg_current_xact_id() WHERE xact > pg_current_xact_id();
    RETURN QUERY UPDATE feeds SET done = '1:1:', until = NULL, mark = 0, mark_at = NULL, mark_row = 0
    WHERE pg_snapshot_xmax(done::pg_snapshot) > pg_snapshot_xmax(pg_current_snapshot()) RETURNING id;
END
$$;
GRANT EXECUTE ON FUNCTION restart_restored_feeds TO admit_worker;

-- Deletes marks that no feed needs. Marks older than `keep` are deleted anyway, and their
-- undelivered events counted.
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
GRANT EXECUTE ON FUNCTION prune_feed_marks TO admit_worker;

-- Whether a feed has marks to deliver outside its window.
CREATE OR REPLACE FUNCTION feed_waits(f feeds) RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT EXISTS (
        SELECT FROM unnest(f.sources) source CROSS JOIN LATERAL (
            SELECT m.id FROM feed_marks m
            WHERE m.tenant_id = f.tenant_id AND m.source = source.source
                AND m.xact >= pg_snapshot_xmin(f.done::pg_snapshot)
                AND NOT pg_visible_in_snapshot(m.xact, f.done::pg_snapshot) AND (m.feed_id IS NULL OR m.feed_id = f.id)
            -- The order forces the index, however many marks other feeds still need.
            ORDER BY m.tenant_id, m.source, m.xact LIMIT 1
        ) waiting
    )
$$;
GRANT EXECUTE ON FUNCTION feed_waits TO admit_worker;

-- Replaces the waiting marks of a slow feed with one mark for each hour and table. A worker that
-- sends meanwhile may send events twice, because its old position matches no mark.
CREATE OR REPLACE FUNCTION fold_feed_marks(most int) RETURNS TABLE (tenant_id uuid, slug text, folded bigint)
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    f feeds;
    waiting bigint;
BEGIN
    FOR f IN SELECT * FROM feeds ORDER BY feeds.id LOOP
        -- Folded feeds stay locked, so the rest waits for the next call.
        EXIT WHEN clock_timestamp() > now() + interval '2 seconds';
        SELECT count(*) INTO waiting FROM (
            SELECT FROM feed_marks m
            WHERE m.tenant_id = f.tenant_id AND m.xact >= pg_snapshot_xmin(f.done::pg_snapshot)
                AND feed_wants(f, m) AND NOT feed_has(f, m)
            LIMIT most + 1
        ) marks;
        CONTINUE WHEN waiting <= most;
        SELECT * INTO f FROM feeds WHERE feeds.id = f.id FOR UPDATE;
        CONTINUE WHEN NOT FOUND;
        -- One statement, so that the folded marks and `done` have the same snapshot, without the new marks.
        WITH old AS (
            SELECT m.* FROM feed_marks m
            WHERE m.tenant_id = f.tenant_id AND m.xact >= pg_snapshot_xmin(f.done::pg_snapshot)
                AND feed_wants(f, m) AND NOT feed_has(f, m)
        ), made AS (
            INSERT INTO feed_marks (tenant_id, feed_id, at, source, first_at, last_at, first_row, last_row, events)
            SELECT f.tenant_id, f.id, max(o.at), o.source,
                min(o.first_at), max(o.last_at), min(o.first_row), max(o.last_row),
                CASE WHEN bool_and(o.events IS NOT NULL) THEN least(sum(o.events), 2147483647) END
            FROM old o GROUP BY o.source, date_trunc('hour', o.first_at, 'UTC') ORDER BY min(o.id)
        )
        UPDATE feeds SET
            done = pg_current_snapshot()::text, until = NULL, mark = 0, mark_at = NULL, mark_row = 0, mark_rows = 0
        WHERE feeds.id = f.id;
        tenant_id := f.tenant_id;
        slug := f.slug;
        SELECT count(*) INTO folded FROM feed_marks m WHERE m.tenant_id = f.tenant_id AND m.feed_id = f.id
            AND m.xact = pg_current_xact_id();
        RETURN NEXT;
    END LOOP;
END
$$;
GRANT EXECUTE ON FUNCTION fold_feed_marks TO admit_worker;

-- A feed without waiting marks has delivered everything that is visible now.
CREATE OR REPLACE FUNCTION advance_idle_feeds() RETURNS void
    LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = public, pg_temp AS $$
    UPDATE feeds f SET done = pg_current_snapshot()::text WHERE f.until IS NULL AND NOT feed_waits(f)
$$;
GRANT EXECUTE ON FUNCTION advance_idle_feeds TO admit_worker;

-- One statement inserts a batch of notes.
CREATE OR REPLACE FUNCTION mark_notes_for_feeds() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    INSERT INTO feed_marks (tenant_id, source, first_at, last_at, first_row, last_row, events)
    SELECT a.tenant_id, a.kind, min(a.at), max(a.at), min(a.id), max(a.id), count(*)
    FROM added a
    WHERE EXISTS (SELECT FROM feeds f WHERE f.tenant_id = a.tenant_id AND a.kind = ANY (f.sources))
    GROUP BY a.tenant_id, a.kind;
    RETURN NULL;
END
$$;
