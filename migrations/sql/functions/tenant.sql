CREATE OR REPLACE FUNCTION find_msp(key text) RETURNS uuid
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    IF key ~ '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$' THEN
        RETURN (SELECT m.id FROM msps m WHERE m.id = key::uuid);
    END IF;
    RETURN (SELECT m.id FROM msps m WHERE m.slug = key);
END
$$;
GRANT EXECUTE ON FUNCTION find_msp TO admit_app;

-- For an MSP with a known id, in any scope.
CREATE OR REPLACE FUNCTION is_suspended_msp(wanted uuid) RETURNS boolean
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    RETURN EXISTS (SELECT FROM msps m WHERE m.id = wanted AND m.status = 'suspended');
END
$$;
GRANT EXECUTE ON FUNCTION is_suspended_msp TO admit_app;

CREATE OR REPLACE FUNCTION record_purged_tenant() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    INSERT INTO purged_tenants (tenant_id) VALUES (OLD.id);
    RETURN NULL;
END
$$;

-- Each request calls this and find_msp. PL/pgSQL plans them once per connection. A SECURITY
-- DEFINER function in SQL would be planned in each call.
--
-- A tenant by id or slug, and its MSP. Callers without access learn nothing else.
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
GRANT EXECUTE ON FUNCTION find_tenant TO admit_app;

-- A long transaction that fills a table misleads the planner: autovacuum sees no rows and stores
-- zero. Then all indexes look alike, and each reference check scans all rows of the tenant.
-- Within the transaction, the rows are visible.
CREATE OR REPLACE FUNCTION note_growth(wanted text) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    IF wanted NOT IN ('endpoints', 'users', 'certificates') THEN
        RAISE EXCEPTION 'no such table' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF (SELECT c.reltuples < 1000 AND c.relpages > 0 FROM pg_class c WHERE c.oid = wanted::regclass) THEN
        EXECUTE format('ANALYZE (SKIP_LOCKED) %I', wanted);
    END IF;
END
$$;
GRANT EXECUTE ON FUNCTION note_growth TO admit_app, admit_worker;

-- Those of the tenants that the scope can read (policies of `tenants`). The search functions have the owner's rights,
-- because the policies of other tables permit only one tenant, and keep functions such as lower() from using an index.
-- They read no tenant beyond these.
CREATE OR REPLACE FUNCTION tenants_in_scope(wanted uuid[]) RETURNS uuid[]
    LANGUAGE plpgsql STABLE SET search_path = public, pg_temp SET plan_cache_mode = force_generic_plan AS $$
BEGIN
    IF scope_is_platform() THEN
        RETURN wanted;
    END IF;
    RETURN ARRAY(
        SELECT t.id FROM tenants t WHERE t.id = ANY (wanted) AND (
            t.id = (SELECT scope_tenant_id())
            OR t.msp_id = (SELECT scope_msp_id())
            OR ((SELECT scope_person_id()) IS NOT NULL AND t.id IN (SELECT tenants_of_person()))
        )
    );
END
$$;
