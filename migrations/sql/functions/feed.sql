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

-- Deletes one batch, so that locks are short, and returns its size.
CREATE OR REPLACE FUNCTION prune_event_notes(keep interval, most int) RETURNS int
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    gone int;
BEGIN
    DELETE FROM event_notes WHERE ctid = ANY (ARRAY(SELECT ctid FROM event_notes WHERE at < now() - keep LIMIT most));
    GET DIAGNOSTICS gone = ROW_COUNT;
    RETURN gone;
END
$$;
GRANT EXECUTE ON FUNCTION prune_event_notes TO admit_worker;

-- Thousands of sessions begin and end each second. One statement handles a batch, only for
-- tenants with a feed that needs them.
CREATE OR REPLACE FUNCTION note_sessions() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp
    -- Shippers turn hash joins off. Here both sides are a whole batch without statistics.
    SET enable_hashjoin = on SET enable_nestloop = off AS $$
DECLARE
    wanting uuid[] := ARRAY(SELECT DISTINCT f.tenant_id FROM feeds f WHERE 'session' = ANY (f.sources));
    -- Class and Chargeable-User-Identity have no meaning for receivers. The others are internal.
    internal_columns CONSTANT text[] :=
        '{tenant_id,class,cui,mac_key,identity_key,updated_at,framed_prefix,
          interim_seconds,usage_hour,settled_seconds,settled_input,settled_output}';
BEGIN
    IF wanting = '{}' THEN
        RETURN NULL;
    END IF;
    IF TG_OP = 'INSERT' THEN
        INSERT INTO event_notes (tenant_id, kind, what, happened_at, said)
        SELECT s.tenant_id, 'session', w.what, w.at, jsonb_strip_nulls(to_jsonb(s) - internal_columns)
        FROM added s
        CROSS JOIN LATERAL (VALUES (1, 'started', s.started_at), (2, 'ended', s.stopped_at)) w (place, what, at)
        WHERE s.tenant_id = ANY (wanting) AND w.at IS NOT NULL
        ORDER BY s.id, w.place;
        RETURN NULL;
    END IF;
    INSERT INTO event_notes (tenant_id, kind, what, happened_at, said)
    SELECT s.tenant_id, 'session', w.what, coalesce(s.stopped_at, s.updated_at), jsonb_strip_nulls(to_jsonb(s) - internal_columns)
    FROM changed s JOIN before b ON b.id = s.id CROSS JOIN LATERAL (
        SELECT CASE WHEN s.stopped_at IS NULL THEN 'resumed' WHEN 'stale' = ANY (s.flags) THEN 'stale' ELSE 'ended' END,
            'stale' = ANY (s.flags) <> ('stale' = ANY (b.flags))
    ) w (what, is_other)
    WHERE s.tenant_id = ANY (wanting)
        AND (s.stopped_at IS DISTINCT FROM b.stopped_at OR (s.stopped_at IS NOT NULL AND w.is_other))
    ORDER BY s.id;
    RETURN NULL;
END
$$;

-- `e` is the row.
CREATE OR REPLACE FUNCTION endpoint_note(e jsonb) RETURNS jsonb LANGUAGE sql STABLE AS $$
    SELECT jsonb_build_object(
        'mac', e -> 'mac', 'name', e -> 'name', 'vendor', e -> 'vendor',
        'profile', coalesce(nullif(e ->> 'set_profile', ''), e ->> 'found_profile'), 'valid_until', e -> 'valid_until'
    )
$$;

CREATE OR REPLACE FUNCTION note_endpoints() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        INSERT INTO event_notes (tenant_id, kind, what, happened_at, said)
        SELECT e.tenant_id, 'endpoint', w.what, coalesce(e.first_seen_at, now()), endpoint_note(to_jsonb(e))
        FROM added e CROSS JOIN LATERAL (
            VALUES (1, CASE WHEN e.status = 'discovered' THEN 'discovered' ELSE 'created' END),
                (2, CASE WHEN e.status = 'blocked' THEN 'blocked' END)
        ) w (place, what)
        WHERE w.what IS NOT NULL ORDER BY e.id, w.place;
        INSERT INTO endpoint_expiries SELECT tenant_id, id, valid_until FROM added WHERE valid_until IS NOT NULL;
    ELSE
        INSERT INTO event_notes (tenant_id, kind, what, happened_at, said)
        SELECT e.tenant_id, 'endpoint', 'removed', now(), endpoint_note(to_jsonb(e))
        -- Except devices deleted with their tenant.
        FROM gone e WHERE e.tenant_id IN (SELECT t.id FROM tenants t) ORDER BY e.id;
    END IF;
    RETURN NULL;
END
$$;

-- The worker updates each seen endpoint row by row, and almost none of these updates is an
-- event.
CREATE OR REPLACE FUNCTION note_changed_endpoint() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    IF NEW.status <> OLD.status THEN
        INSERT INTO event_notes (tenant_id, kind, what, happened_at, said)
        VALUES (NEW.tenant_id, 'endpoint', CASE
            WHEN NEW.status = 'blocked' THEN 'blocked'
            WHEN OLD.status = 'blocked' THEN 'unblocked'
            WHEN NEW.status = 'ignored' THEN 'ignored'
            WHEN NEW.status = 'active' THEN 'approved'
            ELSE 'discovered' END, now(), endpoint_note(to_jsonb(NEW)));
    END IF;
    IF NEW.valid_until IS DISTINCT FROM OLD.valid_until THEN
        DELETE FROM endpoint_expiries WHERE tenant_id = NEW.tenant_id AND endpoint_id = NEW.id;
        INSERT INTO endpoint_expiries SELECT NEW.tenant_id, NEW.id, NEW.valid_until WHERE NEW.valid_until IS NOT NULL;
    END IF;
    RETURN NULL;
END
$$;

-- Notes up to `most` expired approvals, and returns their number.
CREATE OR REPLACE FUNCTION note_expired_endpoints(most int) RETURNS int
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    ended int;
BEGIN
    WITH due AS (
        DELETE FROM endpoint_expiries WHERE (tenant_id, endpoint_id) IN (
            SELECT x.tenant_id, x.endpoint_id FROM endpoint_expiries x WHERE x.valid_until <= now()
            ORDER BY x.valid_until LIMIT most FOR UPDATE SKIP LOCKED
        ) RETURNING tenant_id, endpoint_id, valid_until
    )
    INSERT INTO event_notes (tenant_id, kind, what, happened_at, said)
    SELECT e.tenant_id, 'endpoint', 'expired', d.valid_until, endpoint_note(to_jsonb(e))
    FROM due d JOIN endpoints e ON e.tenant_id = d.tenant_id AND e.id = d.endpoint_id
    ORDER BY d.valid_until, e.id;
    GET DIAGNOSTICS ended = ROW_COUNT;
    RETURN ended;
END
$$;
GRANT EXECUTE ON FUNCTION note_expired_endpoints TO admit_worker;

-- `c` is the row.
CREATE OR REPLACE FUNCTION certificate_note(c jsonb) RETURNS jsonb LANGUAGE sql STABLE AS $$
    SELECT jsonb_build_object(
        'serial', ltrim(c ->> 'serial', '\x'), 'name', c -> 'common_name', 'subject', c -> 'subject',
        'profile', c -> 'profile',
        'not_before', c -> 'not_before', 'not_after', c -> 'not_after', 'reason', c -> 'revocation_reason'
    )
$$;

CREATE OR REPLACE FUNCTION authority_note(a certificate_authorities) RETURNS jsonb LANGUAGE sql STABLE AS $$
    SELECT jsonb_build_object(
        'serial', '', 'name', a.name, 'subject', a.subject, 'profile', a.kind || '-authority',
        'not_before', a.not_before, 'not_after', a.not_after, 'reason', a.revocation_reason
    )
$$;

-- Certificates of self-tests are no events. A row exists before its signature and counts from
-- when it is valid.
CREATE OR REPLACE FUNCTION note_certificates() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp
    -- A plan for one row must not serve thousands.
    SET enable_nestloop = off AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        INSERT INTO event_notes (tenant_id, kind, what, happened_at, said)
        SELECT c.tenant_id, 'certificate', CASE WHEN c.renews_id IS NULL THEN 'issued' ELSE 'renewed' END, now(),
            certificate_note(to_jsonb(c))
        FROM added c WHERE c.status = 'valid' AND c.profile <> 'eap-client-self-test' ORDER BY c.id;
        RETURN NULL;
    END IF;
    INSERT INTO event_notes (tenant_id, kind, what, happened_at, said)
    SELECT c.tenant_id, 'certificate', CASE
            WHEN c.status <> 'valid' THEN c.status
            WHEN b.status = 'suspended' THEN 'reinstated'
            WHEN c.renews_id IS NULL THEN 'issued'
            ELSE 'renewed' END,
        coalesce(CASE WHEN c.status <> 'valid' THEN c.revoked_at END, now()), certificate_note(to_jsonb(c))
    FROM before b JOIN changed c ON c.id = b.id AND c.status <> b.status
    WHERE c.status IN ('valid', 'suspended', 'revoked') AND c.profile <> 'eap-client-self-test'
    ORDER BY c.id;
    RETURN NULL;
END
$$;

-- Except external authorities, which others issued.
CREATE OR REPLACE FUNCTION note_authority() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    INSERT INTO event_notes (tenant_id, kind, what, happened_at, said)
    SELECT NEW.tenant_id, 'certificate', CASE WHEN TG_OP = 'INSERT' THEN 'issued' ELSE 'revoked' END,
        CASE WHEN TG_OP = 'INSERT' THEN now() ELSE coalesce(NEW.revoked_at, now()) END, authority_note(NEW);
    RETURN NULL;
END
$$;

CREATE OR REPLACE FUNCTION note_expiry_warnings() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    INSERT INTO event_notes (tenant_id, kind, what, happened_at, said)
    SELECT w.tenant_id, 'certificate', 'expiring', w.warned_at, s.said || jsonb_build_object('days', w.days)
    FROM added w CROSS JOIN LATERAL (
        SELECT certificate_note(to_jsonb(c)) FROM certificates c WHERE c.tenant_id = w.tenant_id AND c.id = w.subject_id
        UNION ALL
        SELECT authority_note(a) FROM certificate_authorities a WHERE a.tenant_id = w.tenant_id AND a.id = w.subject_id
    ) s (said)
    ORDER BY w.days, w.subject_id;
    RETURN NULL;
END
$$;

-- Alarms of the cell's tenants: raised if missing in the last report, cleared if missing in this
-- one. Alarms of the whole cell belong to no tenant.
CREATE OR REPLACE FUNCTION note_cell_alarms() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    INSERT INTO event_notes (tenant_id, kind, what, happened_at, said)
    SELECT s.tenant_id, 'alarm', c.what, c.at, jsonb_build_object(
        'code', c.alarm ->> 'code', 'detail', c.alarm ->> 'detail', 'since', c.alarm ->> 'since', 'cell', NEW.name
    )
    FROM (
        SELECT 'cleared' AS what, now() AS at, alarm FROM jsonb_array_elements(OLD.alarms) alarm
        WHERE NOT EXISTS (SELECT FROM jsonb_array_elements(NEW.alarms) n WHERE same_alarm(alarm, n))
        UNION ALL
        SELECT 'raised', (alarm ->> 'since')::timestamptz, alarm FROM jsonb_array_elements(NEW.alarms) alarm
        WHERE NOT EXISTS (SELECT FROM jsonb_array_elements(OLD.alarms) o WHERE same_alarm(alarm, o))
    ) c JOIN tenants t ON t.number::text = c.alarm ->> 'tenant'
    JOIN slots s ON s.cell_id = NEW.id AND s.tenant_id = t.id
    ORDER BY c.what, c.at;
    RETURN NULL;
END
$$;

CREATE OR REPLACE FUNCTION same_alarm(a jsonb, b jsonb) RETURNS boolean LANGUAGE sql IMMUTABLE AS $$
    SELECT a ->> 'code' = b ->> 'code' AND a ->> 'since' = b ->> 'since'
$$;

-- Alarms of the worker: failing feeds and retention notices.
CREATE OR REPLACE FUNCTION note_alarm(tenant uuid, what text, code text, detail text, since timestamptz) RETURNS void
    LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = public, pg_temp AS $$
    INSERT INTO event_notes (tenant_id, kind, what, happened_at, said)
    SELECT t.id, 'alarm', what, CASE what WHEN 'raised' THEN since ELSE now() END,
        jsonb_build_object('code', code, 'detail', detail, 'since', since, 'cell', '')
    -- Except for a tenant that is being deleted.
    FROM tenants t WHERE t.id = tenant
$$;

CREATE OR REPLACE FUNCTION note_failing_feed() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    IF TG_OP = 'UPDATE' AND NEW.failure_reported_at IS NOT NULL THEN
        PERFORM note_alarm(NEW.tenant_id, 'raised', 'feed-failing-' || NEW.slug, NEW.failure, NEW.failing_since);
    ELSE
        PERFORM note_alarm(OLD.tenant_id, 'cleared', 'feed-failing-' || OLD.slug, OLD.failure, OLD.failing_since);
    END IF;
    RETURN NULL;
END
$$;

CREATE OR REPLACE FUNCTION note_retention() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        PERFORM note_alarm(NEW.tenant_id, 'raised', concat_ws('-', 'retention', NEW.kind, NEW.log), NEW.detail,
            NEW.since);
    ELSE
        PERFORM note_alarm(OLD.tenant_id, 'cleared', concat_ws('-', 'retention', OLD.kind, OLD.log), OLD.detail,
            OLD.since);
    END IF;
    RETURN NULL;
END
$$;
