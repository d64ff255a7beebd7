-- While an MSP is suspended, what it has given its people and programs gives nothing.
ALTER TABLE msps ADD COLUMN status text NOT NULL DEFAULT 'active'
    CONSTRAINT ck_msps_status CHECK (status IN ('active', 'suspended'));
-- Suspended because its MSP was, and to be resumed with it.
ALTER TABLE tenants ADD COLUMN suspended_with_msp boolean NOT NULL DEFAULT false
    CONSTRAINT ck_tenants_suspended_with_msp CHECK (NOT suspended_with_msp OR status = 'suspended');
GRANT DELETE ON msps TO admit_app;

-- In any scope: of an MSP whose id is known.
CREATE FUNCTION is_suspended_msp(wanted uuid) RETURNS boolean
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
    SELECT EXISTS (SELECT FROM msps m WHERE m.id = wanted AND m.status = 'suspended')
$$;
REVOKE EXECUTE ON FUNCTION is_suspended_msp(uuid) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION is_suspended_msp(uuid) TO admit_app;

-- As before, but for memberships of MSPs that are suspended.
CREATE OR REPLACE FUNCTION memberships_behind(token api_tokens) RETURNS jsonb
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
    SELECT coalesce(jsonb_agg(jsonb_build_object(
        'role', m.role, 'permissions', r.permissions, 'msp_id', m.msp_id, 'tenant_id', m.tenant_id,
        'has_chosen', m.has_chosen
    )), '[]')
    FROM memberships m JOIN people p ON p.id = m.person_id LEFT JOIN custom_roles r ON r.id = m.custom_role_id
    WHERE m.person_id = token.maker_id AND p.status = 'active' AND NOT is_suspended_msp(m.msp_id)
        AND (num_nonnulls(token.via_msp_id, token.via_tenant_id) = 0
            OR m.msp_id = token.via_msp_id OR m.tenant_id = token.via_tenant_id)
        AND CASE
            WHEN m.tenant_id IS NOT NULL THEN m.tenant_id = token.tenant_id
            WHEN m.msp_id IS NULL OR m.msp_id = token.msp_id THEN true
            ELSE EXISTS (SELECT FROM tenants t WHERE t.id = token.tenant_id AND t.msp_id = m.msp_id)
                AND (NOT m.has_chosen OR EXISTS (
                    SELECT FROM membership_tenants c WHERE c.membership_id = m.id AND c.tenant_id = token.tenant_id
                ))
        END
$$;

-- As before, but that an MSP's status is told.
CREATE OR REPLACE FUNCTION places_of_person(only_msp uuid, only_tenant uuid, after text, most int)
    RETURNS TABLE (key text, kind text, id uuid, msp_id uuid, slug text, name text, status text)
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
    WITH mine AS (
        SELECT m.* FROM memberships m
        WHERE m.person_id = scope_person_id()
            AND (num_nonnulls(only_msp, only_tenant) = 0 OR m.msp_id = only_msp OR m.tenant_id = only_tenant)
    ), everywhere AS (
        SELECT EXISTS (SELECT FROM mine WHERE num_nonnulls(mine.msp_id, mine.tenant_id) = 0) AS so
    ), reached AS (
        SELECT mine.* FROM mine WHERE mine.msp_id IS NOT NULL AND NOT is_suspended_msp(mine.msp_id)
    ), places AS (
        SELECT p.slug || '/msp' AS key, 'msp' AS kind, p.id, p.id AS msp_id, p.slug, p.name, p.status
        FROM msps p
        WHERE (SELECT so FROM everywhere) OR p.id IN (SELECT mine.msp_id FROM mine)
        UNION ALL
        SELECT t.slug || '/tenant', 'tenant', t.id, t.msp_id, t.slug, t.name, t.status FROM tenants t
        WHERE (SELECT so FROM everywhere)
            OR t.msp_id IN (SELECT reached.msp_id FROM reached WHERE NOT reached.has_chosen)
            OR t.id IN (SELECT mine.tenant_id FROM mine)
            OR t.id IN (
                SELECT c.tenant_id FROM membership_tenants c JOIN reached ON reached.id = c.membership_id
                WHERE reached.msp_id = t.msp_id
            )
    )
    SELECT places.* FROM places WHERE places.key COLLATE "C" > after ORDER BY places.key COLLATE "C" LIMIT most
$$;
