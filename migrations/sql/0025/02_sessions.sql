-- Sessions begin and end by the thousand in a second: they are noted for tenants with a feed that wants them alone, a
-- batch by one statement.
CREATE FUNCTION note_sessions() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp
    -- Shippers do without hash joins; here both sides are a whole batch, of which the planner knows nothing.
    SET enable_hashjoin = on SET enable_nestloop = off AS $$
DECLARE
    wanting uuid[] := ARRAY(SELECT DISTINCT f.tenant_id FROM feeds f WHERE 'session' = ANY (f.sources));
    -- Class and Chargeable-User-Identity tell others nothing, the rest is our own bookkeeping.
    untold CONSTANT text[] := 
        '{tenant_id,class,cui,mac_key,identity_key,updated_at,framed_prefix,interim_seconds,usage_hour,settled_seconds,settled_input,settled_output}';
BEGIN
    IF wanting = '{}' THEN
        RETURN NULL;
    END IF;
    IF TG_OP = 'INSERT' THEN
        INSERT INTO event_notes (tenant_id, kind, what, happened_at, said)
        SELECT s.tenant_id, 'session', w.what, w.at, jsonb_strip_nulls(to_jsonb(s) - untold)
        FROM added s CROSS JOIN LATERAL (VALUES (1, 'started', s.started_at), (2, 'ended', s.stopped_at)) w (place, what, at)
        WHERE s.tenant_id = ANY (wanting) AND w.at IS NOT NULL
        ORDER BY s.id, w.place;
        RETURN NULL;
    END IF;
    INSERT INTO event_notes (tenant_id, kind, what, happened_at, said)
    SELECT s.tenant_id, 'session', w.what, coalesce(s.stopped_at, s.updated_at), jsonb_strip_nulls(to_jsonb(s) - untold)
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
REVOKE EXECUTE ON FUNCTION note_sessions() FROM PUBLIC;
CREATE TRIGGER note_begun AFTER INSERT ON sessions REFERENCING NEW TABLE AS added
    FOR EACH STATEMENT EXECUTE FUNCTION note_sessions();
CREATE TRIGGER note_ended AFTER UPDATE ON sessions REFERENCING OLD TABLE AS before NEW TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION note_sessions();
