-- What a cell reports of its own tenants: raised where it was not in the report before, cleared where it is no more.
-- What concerns a cell as a whole is no tenant's.
CREATE FUNCTION note_cell_alarms() RETURNS trigger
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
CREATE FUNCTION same_alarm(a jsonb, b jsonb) RETURNS boolean LANGUAGE sql IMMUTABLE AS $$
    SELECT a ->> 'code' = b ->> 'code' AND a ->> 'since' = b ->> 'since'
$$;
CREATE TRIGGER note_alarms AFTER UPDATE ON cells FOR EACH ROW
    WHEN (OLD.alarms IS DISTINCT FROM NEW.alarms) EXECUTE FUNCTION note_cell_alarms();

-- What the worker finds: feeds that fail, as long as people were told of it, and notices of retention.
CREATE FUNCTION note_alarm(tenant uuid, what text, code text, detail text, since timestamptz) RETURNS void
    LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = public, pg_temp AS $$
    INSERT INTO event_notes (tenant_id, kind, what, happened_at, said)
    SELECT t.id, 'alarm', what, CASE what WHEN 'raised' THEN since ELSE now() END,
        jsonb_build_object('code', code, 'detail', detail, 'since', since, 'cell', '')
    -- Not of a tenant that goes.
    FROM tenants t WHERE t.id = tenant
$$;
CREATE FUNCTION note_failing_feed() RETURNS trigger
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
CREATE TRIGGER note_failing AFTER UPDATE ON feeds FOR EACH ROW
    WHEN ((OLD.told_failing_at IS NULL) <> (NEW.told_failing_at IS NULL)) EXECUTE FUNCTION note_failing_feed();
CREATE TRIGGER note_removed AFTER DELETE ON feeds FOR EACH ROW
    WHEN (OLD.told_failing_at IS NOT NULL) EXECUTE FUNCTION note_failing_feed();

CREATE FUNCTION note_retention() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        PERFORM note_alarm(NEW.tenant_id, 'raised', concat_ws('-', 'retention', NEW.kind, NEW.log), NEW.detail, NEW.since);
    ELSE
        PERFORM note_alarm(OLD.tenant_id, 'cleared', concat_ws('-', 'retention', OLD.kind, OLD.log), OLD.detail, OLD.since);
    END IF;
    RETURN NULL;
END
$$;
CREATE TRIGGER note_raised AFTER INSERT OR DELETE ON retention_notices FOR EACH ROW EXECUTE FUNCTION note_retention();
REVOKE EXECUTE ON FUNCTION note_cell_alarms(), same_alarm(jsonb, jsonb), note_alarm(uuid, text, text, text, timestamptz),
    note_failing_feed(), note_retention() FROM PUBLIC;
