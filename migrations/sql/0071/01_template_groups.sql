-- Whether the template that the tenant in scope follows has a group of this name, in the version that was brought to it
-- and unless that group is the tenant's own. Of the template, which is the MSP's, nothing else is told.
CREATE FUNCTION template_has_group(kind text, name text) RETURNS boolean
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
    SELECT EXISTS (
        SELECT FROM template_tenants f
        JOIN template_versions v ON v.template_id = f.template_id AND v.number = f.version
        WHERE f.tenant_id = scope_tenant_id()
            AND v.document -> (kind || '_groups') ? name
            AND NOT f.overrides @> ARRAY['group:' || kind || '/' || name]
    )
$$;
REVOKE EXECUTE ON FUNCTION template_has_group(text, text) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION template_has_group(text, text) TO admit_app;
