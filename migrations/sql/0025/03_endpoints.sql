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
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp
    -- A plan that was made for one row must not be that of thousands.
    SET enable_nestloop = off AS $$
DECLARE
    prolonged uuid[];
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
    ELSIF TG_OP = 'UPDATE' THEN
        INSERT INTO event_notes (tenant_id, kind, what, happened_at, said)
        SELECT e.tenant_id, 'endpoint', CASE
                WHEN e.status = 'blocked' THEN 'blocked'
                WHEN b.status = 'blocked' THEN 'unblocked'
                WHEN e.status = 'ignored' THEN 'ignored'
                WHEN e.status = 'active' THEN 'approved'
                ELSE 'discovered' END, now(), endpoint_note(to_jsonb(e))
        FROM before b JOIN changed e ON e.id = b.id AND e.status <> b.status
        ORDER BY e.id;
        prolonged := ARRAY(
            SELECT b.id FROM before b JOIN changed c ON c.id = b.id AND c.valid_until IS DISTINCT FROM b.valid_until
        );
        IF prolonged <> '{}' THEN
            DELETE FROM endpoint_expiries
            WHERE tenant_id = ANY (ARRAY(SELECT DISTINCT c.tenant_id FROM changed c)) AND endpoint_id = ANY (prolonged);
            INSERT INTO endpoint_expiries
            SELECT c.tenant_id, c.id, c.valid_until FROM changed c
            WHERE c.id = ANY (prolonged) AND c.valid_until IS NOT NULL;
        END IF;
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
CREATE TRIGGER note_changed AFTER UPDATE ON endpoints REFERENCING OLD TABLE AS before NEW TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION note_endpoints();
CREATE TRIGGER note_removed AFTER DELETE ON endpoints REFERENCING OLD TABLE AS gone
    FOR EACH STATEMENT EXECUTE FUNCTION note_endpoints();

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
REVOKE EXECUTE ON FUNCTION endpoint_note(jsonb), note_endpoints(), note_expired_endpoints(int) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION note_expired_endpoints(int) TO admit_worker;
