-- MSPs and tenants that the person in scope is a member of something for, in the order of their keys; where the sign-in
-- is by an owner's provider, of that owner's memberships alone.
CREATE FUNCTION places_of_person(only_msp uuid, only_tenant uuid, after text, most int)
    RETURNS TABLE (key text, kind text, id uuid, msp_id uuid, slug text, name text, status text)
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
    WITH mine AS (
        SELECT m.* FROM memberships m
        WHERE m.person_id = scope_person_id()
            AND (num_nonnulls(only_msp, only_tenant) = 0 OR m.msp_id = only_msp OR m.tenant_id = only_tenant)
    ), everywhere AS (
        SELECT EXISTS (SELECT FROM mine WHERE num_nonnulls(mine.msp_id, mine.tenant_id) = 0) AS so
    ), places AS (
        SELECT p.slug || '/msp' AS key, 'msp' AS kind, p.id, p.id AS msp_id, p.slug, p.name, 'active' AS status
        FROM msps p
        WHERE (SELECT so FROM everywhere) OR p.id IN (SELECT mine.msp_id FROM mine)
        UNION ALL
        SELECT t.slug || '/tenant', 'tenant', t.id, t.msp_id, t.slug, t.name, t.status FROM tenants t
        WHERE (SELECT so FROM everywhere)
            OR t.msp_id IN (SELECT mine.msp_id FROM mine WHERE NOT mine.has_chosen)
            OR t.id IN (SELECT mine.tenant_id FROM mine)
            OR t.id IN (
                SELECT c.tenant_id FROM membership_tenants c JOIN mine ON mine.id = c.membership_id
                WHERE mine.msp_id = t.msp_id
            )
    )
    SELECT places.* FROM places WHERE places.key COLLATE "C" > after ORDER BY places.key COLLATE "C" LIMIT most
$$;
REVOKE EXECUTE ON FUNCTION places_of_person(uuid, uuid, text, int) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION places_of_person(uuid, uuid, text, int) TO admit_app;
