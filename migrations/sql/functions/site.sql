-- Observations of another device or an earlier exemption prove nothing.
CREATE OR REPLACE FUNCTION forget_nas_signatures() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    DELETE FROM nas_signatures WHERE nas_id = NEW.id;
    RETURN NULL;
END
$$;

-- NASes of several tenants whose name or NAS-Identifier begins with `wanted`, or with this IP address,
-- as search_endpoints.
CREATE OR REPLACE FUNCTION search_nases(tenants uuid[], wanted text, at inet, most int)
    RETURNS TABLE (
        tenant_id uuid, id uuid, name text, identifier text, address inet, vendor text, site text, is_exact boolean
    )
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = public, pg_temp SET plan_cache_mode = force_custom_plan AS $$
#variable_conflict use_column
BEGIN
    tenants := tenants_in_scope(tenants);
    wanted := lower(wanted);
    RETURN QUERY
    WITH found AS (
        (
            SELECT n.id FROM unnest(tenants) t (id) CROSS JOIN LATERAL (
                SELECT n.id FROM nases n WHERE n.tenant_id = t.id AND n.address = at LIMIT most
            ) n
        )
        UNION
        (
            SELECT n.id FROM unnest(tenants) t (id) CROSS JOIN LATERAL (
                SELECT n.id FROM nases n
                WHERE n.tenant_id = t.id AND lower(n.name) ~>=~ wanted AND lower(n.name) ~<~ (wanted || chr(1114111))
                ORDER BY lower(n.name) USING ~<~ LIMIT most
            ) n LIMIT 1000
        )
        UNION
        (
            SELECT n.id FROM unnest(tenants) t (id) CROSS JOIN LATERAL (
                SELECT n.id FROM nases n
                WHERE n.tenant_id = t.id
                    AND lower(n.identifier) ~>=~ wanted AND lower(n.identifier) ~<~ (wanted || chr(1114111))
                ORDER BY lower(n.identifier) USING ~<~ LIMIT most
            ) n LIMIT 1000
        )
    )
    SELECT n.tenant_id, n.id, n.name, n.identifier, n.address, n.vendor, s.slug,
        lower(n.name) = wanted OR coalesce(lower(n.identifier) = wanted, false) OR coalesce(n.address = at, false)
    FROM found CROSS JOIN LATERAL (SELECT * FROM nases n WHERE n.id = found.id LIMIT 1) n
    CROSS JOIN LATERAL (SELECT s.slug FROM sites s WHERE s.id = n.site_id LIMIT 1) s
    ORDER BY 8 DESC, n.name, n.id LIMIT most;
END
$$;
GRANT EXECUTE ON FUNCTION search_nases TO admit_app;
