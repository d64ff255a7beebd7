-- Agents read the slot or the NAS again.
CREATE OR REPLACE FUNCTION record_rotation_change() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    rotation secret_rotations := coalesce(NEW, OLD);
BEGIN
    INSERT INTO replica_changes (tenant_id, noun, key) VALUES (rotation.tenant_id, 'slot', rotation.id::text);
    IF rotation.nas_id IS NOT NULL THEN
        INSERT INTO replica_changes (tenant_id, noun, key) VALUES (rotation.tenant_id, 'nas', rotation.nas_id::text);
    END IF;
    PERFORM pg_notify('replica_changes', '');
    RETURN NULL;
END
$$;

CREATE OR REPLACE FUNCTION secret_rotations_over(most int) RETURNS TABLE (tenant_id uuid, id uuid)
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
    SELECT r.tenant_id, r.id FROM secret_rotations r
    WHERE r.state = 'running' AND r.ends_at <= now() AND r.at_end = 'finish' ORDER BY r.ends_at LIMIT most
$$;
GRANT EXECUTE ON FUNCTION secret_rotations_over TO admit_worker;

-- Registered NASes with this secret, and others that used it or the next one. The caller's
-- row-level security applies.
CREATE OR REPLACE FUNCTION rotation_nases(tenant uuid, rotation uuid, nas uuid) RETURNS TABLE (
    key text, nas_id uuid, name text, signs boolean, source text, address text,
    old_at timestamptz, new_at timestamptz, new_since timestamptz, state text
) LANGUAGE sql STABLE AS $$
    SELECT coalesce(n.id::text, s.nas_key), n.id, coalesce(n.name, ''), coalesce(n.require_message_authenticator, true),
        host(s.source), host(n.address), s.old_at, s.new_at, s.new_since,
        CASE WHEN s.old_at IS NULL AND s.new_at IS NULL THEN 'unseen' WHEN s.new_at IS NULL THEN 'old'
            WHEN s.old_at > s.new_at THEN 'back' ELSE 'new' END
    FROM (
        SELECT * FROM nases k WHERE k.tenant_id = $1
            AND CASE WHEN $3 IS NOT NULL THEN k.id = $3 ELSE k.secret_sealed IS NULL END
    ) n FULL JOIN (
        SELECT * FROM secret_sightings k WHERE k.tenant_id = $1 AND k.rotation_id = $2
    ) s ON s.nas_key = n.id::text
$$;
GRANT EXECUTE ON FUNCTION rotation_nases TO admit_app, admit_worker;
