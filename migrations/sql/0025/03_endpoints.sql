-- Approvals that end, which no transaction does: each is noted when its time has come.
CREATE TABLE endpoint_expiries (
    tenant_id uuid NOT NULL,
    endpoint_id uuid NOT NULL,
    valid_until timestamptz NOT NULL,
    CONSTRAINT pk_endpoint_expiries PRIMARY KEY (tenant_id, endpoint_id),
    CONSTRAINT fk_endpoint_expiries_tenant_id_endpoint_id FOREIGN KEY (tenant_id, endpoint_id)
        REFERENCES endpoints (tenant_id, id) ON DELETE CASCADE
);
CREATE INDEX ix_endpoint_expiries_valid_until ON endpoint_expiries (valid_until);
GRANT SELECT ON endpoint_expiries TO admit_app, admit_worker;
INSERT INTO endpoint_expiries SELECT tenant_id, id, valid_until FROM endpoints WHERE valid_until > now();

-- `e` is the row.
CREATE FUNCTION endpoint_note(e jsonb) RETURNS jsonb LANGUAGE sql STABLE AS $$
    SELECT jsonb_build_object(
        'mac', e -> 'mac', 'name', e -> 'name', 'vendor', e -> 'vendor',
        'profile', coalesce(nullif(e ->> 'set_profile', ''), e ->> 'found_profile'), 'valid_until', e -> 'valid_until'
    )
$$;

CREATE FUNCTION note_endpoints() RETURNS trigger
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
        -- Not those that go with their tenant.
        FROM gone e WHERE e.tenant_id IN (SELECT t.id FROM tenants t) ORDER BY e.id;
    END IF;
    RETURN NULL;
END
$$;
CREATE TRIGGER note_added AFTER INSERT ON endpoints REFERENCING NEW TABLE AS added
    FOR EACH STATEMENT EXECUTE FUNCTION note_endpoints();
CREATE TRIGGER note_removed AFTER DELETE ON endpoints REFERENCING OLD TABLE AS gone
    FOR EACH STATEMENT EXECUTE FUNCTION note_endpoints();

-- The worker updates each endpoint that is seen, a row by a statement: of those nearly none is to be told.
CREATE FUNCTION note_changed_endpoint() RETURNS trigger
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
CREATE TRIGGER note_changed AFTER UPDATE ON endpoints FOR EACH ROW
    WHEN (NEW.status <> OLD.status OR NEW.valid_until IS DISTINCT FROM OLD.valid_until)
    EXECUTE FUNCTION note_changed_endpoint();

-- Those whose time has come, `most` of them; returns how many.
CREATE FUNCTION note_expired_endpoints(most int) RETURNS int
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
REVOKE EXECUTE ON FUNCTION endpoint_note(jsonb), note_endpoints(), note_changed_endpoint(),
    note_expired_endpoints(int) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION note_expired_endpoints(int) TO admit_worker;
