-- Records of members include the name of the group.
CREATE OR REPLACE FUNCTION record_user_group_change() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    INSERT INTO replica_changes (tenant_id, noun, key)
    SELECT m.tenant_id, 'user', replica_change_key('user', u.name)
    FROM user_group_members m JOIN users u ON u.id = m.user_id
    WHERE m.group_id = NEW.id;
    PERFORM pg_notify('replica_changes', '');
    RETURN NULL;
END
$$;

-- Users of several tenants whose name begins with `wanted`, as search_endpoints.
CREATE OR REPLACE FUNCTION search_users(tenants uuid[], wanted text, most int)
    RETURNS TABLE (tenant_id uuid, name text, disabled boolean, updated_at timestamptz, is_exact boolean)
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = public, pg_temp SET plan_cache_mode = force_custom_plan AS $$
#variable_conflict use_column
BEGIN
    tenants := tenants_in_scope(tenants);
    wanted := lower(wanted);
    RETURN QUERY
    WITH found AS (
        SELECT u.tenant_id, u.name, u.disabled, u.updated_at FROM unnest(tenants) t (id) CROSS JOIN LATERAL (
            SELECT * FROM users u WHERE u.tenant_id = t.id AND lower(u.name) = wanted LIMIT most
        ) u
        UNION ALL
        (
            SELECT u.tenant_id, u.name, u.disabled, u.updated_at FROM unnest(tenants) t (id) CROSS JOIN LATERAL (
                SELECT * FROM users u
                WHERE u.tenant_id = t.id AND lower(u.name) ~>~ wanted AND lower(u.name) ~<~ (wanted || chr(1114111))
                ORDER BY lower(u.name) USING ~<~ LIMIT most
            ) u LIMIT 1000
        )
    )
    SELECT f.tenant_id, f.name, f.disabled, f.updated_at, lower(f.name) = wanted
    FROM found f ORDER BY 5 DESC, 4 DESC, 2 LIMIT most;
END
$$;
GRANT EXECUTE ON FUNCTION search_users TO admit_app;
