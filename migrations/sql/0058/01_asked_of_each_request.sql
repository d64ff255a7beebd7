-- Each request asks these. In this language a session of PostgreSQL plans them once; in SQL, with their owner's rights,
-- with every call.

-- A tenant by its id or slug, and whose it is. As before, but that either is looked up in its index.
CREATE OR REPLACE FUNCTION find_tenant(key text) RETURNS TABLE (tenant_id uuid, msp_id uuid)
    LANGUAGE plpgsql STABLE ROWS 1 SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    IF key ~ '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$' THEN
        RETURN QUERY SELECT t.id, t.msp_id FROM tenants t WHERE t.id = key::uuid;
    ELSE
        RETURN QUERY SELECT t.id, t.msp_id FROM tenants t WHERE t.slug = key;
    END IF;
END
$$;
CREATE OR REPLACE FUNCTION find_msp(key text) RETURNS uuid
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    IF key ~ '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$' THEN
        RETURN (SELECT m.id FROM msps m WHERE m.id = key::uuid);
    END IF;
    RETURN (SELECT m.id FROM msps m WHERE m.slug = key);
END
$$;
CREATE OR REPLACE FUNCTION is_suspended_msp(wanted uuid) RETURNS boolean
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    RETURN EXISTS (SELECT FROM msps m WHERE m.id = wanted AND m.status = 'suspended');
END
$$;
CREATE OR REPLACE FUNCTION memberships_behind(token api_tokens) RETURNS jsonb
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    RETURN (
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
                        SELECT FROM membership_tenants c
                        WHERE c.membership_id = m.id AND c.tenant_id = token.tenant_id
                    ))
            END
    );
END
$$;
