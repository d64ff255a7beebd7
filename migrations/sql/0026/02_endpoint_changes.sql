-- Devices come by the ten thousand, from a file or on the first morning of an office: what is told of them is told once
-- for a statement, and only where something has changed that cells decide by. As record_replica_change.
CREATE FUNCTION record_endpoint_changes() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        INSERT INTO replica_changes (tenant_id, noun, key)
        SELECT e.tenant_id, 'endpoint', replica_change_key('endpoint', e.mac::text) FROM added e;
    ELSIF TG_OP = 'DELETE' THEN
        INSERT INTO replica_changes (tenant_id, noun, key)
        SELECT e.tenant_id, 'endpoint', replica_change_key('endpoint', e.mac::text) FROM gone e;
    ELSE
        INSERT INTO replica_changes (tenant_id, noun, key)
        SELECT DISTINCT w.tenant_id, 'endpoint', replica_change_key('endpoint', w.mac::text)
        FROM before b JOIN changed c ON c.id = b.id
        CROSS JOIN LATERAL (VALUES (b.tenant_id, b.mac), (c.tenant_id, c.mac)) w (tenant_id, mac)
        WHERE (
            b.tenant_id, b.mac, b.name, b.status, b.valid_until, b.attributes, b.vendor, b.found_profile,
            b.found_confidence, b.set_profile, b.os, b.first_seen_at, b.posture, b.psk_sealed
        ) IS DISTINCT FROM (
            c.tenant_id, c.mac, c.name, c.status, c.valid_until, c.attributes, c.vendor, c.found_profile,
            c.found_confidence, c.set_profile, c.os, c.first_seen_at, c.posture, c.psk_sealed
        );
    END IF;
    IF FOUND THEN
        PERFORM pg_notify('replica_changes', '');
    END IF;
    RETURN NULL;
END
$$;
DROP TRIGGER replica_change ON endpoints;
DROP TRIGGER replica_update ON endpoints;
CREATE TRIGGER replica_added AFTER INSERT ON endpoints REFERENCING NEW TABLE AS added
    FOR EACH STATEMENT EXECUTE FUNCTION record_endpoint_changes();
CREATE TRIGGER replica_changed AFTER UPDATE ON endpoints REFERENCING OLD TABLE AS before NEW TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION record_endpoint_changes();
CREATE TRIGGER replica_removed AFTER DELETE ON endpoints REFERENCING OLD TABLE AS gone
    FOR EACH STATEMENT EXECUTE FUNCTION record_endpoint_changes();

-- As record_member_change. A member that goes itself is not found any more: its own trigger has told.
CREATE FUNCTION record_endpoint_member_changes() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    INSERT INTO replica_changes (tenant_id, noun, key)
    SELECT e.tenant_id, 'endpoint', replica_change_key('endpoint', e.mac::text)
    -- OFFSET 0: each by its key, never all endpoints that there are.
    FROM members m CROSS JOIN LATERAL (SELECT * FROM endpoints WHERE id = m.endpoint_id OFFSET 0) e;
    IF FOUND THEN
        PERFORM pg_notify('replica_changes', '');
    END IF;
    RETURN NULL;
END
$$;
DROP TRIGGER replica_change ON endpoint_group_members;
CREATE TRIGGER replica_added AFTER INSERT ON endpoint_group_members REFERENCING NEW TABLE AS members
    FOR EACH STATEMENT EXECUTE FUNCTION record_endpoint_member_changes();
CREATE TRIGGER replica_removed AFTER DELETE ON endpoint_group_members REFERENCING OLD TABLE AS members
    FOR EACH STATEMENT EXECUTE FUNCTION record_endpoint_member_changes();
