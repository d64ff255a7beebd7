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
    IF TG_OP = 'UPDATE' AND NEW.told_failing_at IS NOT NULL THEN
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
