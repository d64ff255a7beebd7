-- When the person first came in by it. Until then the owner learns nothing of the account, and it makes none.
ALTER TABLE memberships ADD COLUMN accepted_at timestamptz;
UPDATE memberships m SET accepted_at = now() WHERE EXISTS (
    SELECT FROM sign_ins s
    WHERE s.person_id = m.person_id AND s.created_at >= m.created_at
        AND (s.sign_on_id IS NULL OR s.via_msp_id = m.msp_id OR s.via_tenant_id = m.tenant_id)
);

-- The person in scope has come in by these.
CREATE FUNCTION accept_memberships(wanted uuid[]) RETURNS void
    LANGUAGE sql SECURITY DEFINER SET search_path = public, pg_temp AS $$
    UPDATE memberships m SET accepted_at = now()
        WHERE m.id = ANY (wanted) AND m.person_id = scope_person_id() AND m.accepted_at IS NULL
$$;

-- Of these people those who could sign in at the owner: by a means of their own, or by its provider. Asked of members
-- who have come in, and so tells the owner nothing of others.
CREATE FUNCTION able_to_sign_in(wanted uuid[], of_msp uuid, of_tenant uuid) RETURNS TABLE (person_id uuid)
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
    SELECT p.id FROM people p
    WHERE p.id = ANY (wanted) AND p.status = 'active' AND (
        p.password_hash <> ''
        OR EXISTS (SELECT FROM passkeys k WHERE k.person_id = p.id)
        OR EXISTS (
            SELECT FROM sign_on_links l JOIN sign_ons s ON s.id = l.sign_on_id
            WHERE l.person_id = p.id AND (s.msp_id = of_msp OR s.tenant_id = of_tenant)
        )
    )
$$;
REVOKE EXECUTE ON FUNCTION accept_memberships(uuid[]), able_to_sign_in(uuid[], uuid, uuid) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION accept_memberships(uuid[]), able_to_sign_in(uuid[], uuid, uuid) TO admit_app;
