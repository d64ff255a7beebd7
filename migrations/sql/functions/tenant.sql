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

-- Numbers of many tenants for one page. Row-level security opens the tables to one tenant at a
-- time. These functions return only numbers, and only of tenants that the scope can read. The
-- caller checks the permissions.
-- Decisions by hour, from the hour that begins at `since`.
CREATE OR REPLACE FUNCTION count_tenant_decisions(wanted uuid[], since timestamptz)
    RETURNS TABLE (tenant_id uuid, hour timestamptz, permitted bigint, rejected bigint)
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
    SELECT r.id, c.start_at, c.permitted + c.quarantined, c.rejected
    FROM unnest(tenants_in_scope(wanted)) r (id) CROSS JOIN LATERAL (
        SELECT d.* FROM decision_counts d
        WHERE d.tenant_id = r.id AND d.seconds = 3600 AND d.start_at >= since
        -- OFFSET 0: reads an index range for each tenant, and does not read all counts for a join.
        OFFSET 0
    ) c
$$;
GRANT EXECUTE ON FUNCTION count_tenant_decisions TO admit_app;

-- The minute of the last decision, or its hour if Admit has deleted the minute.
CREATE OR REPLACE FUNCTION find_last_decisions(wanted uuid[]) RETURNS TABLE (tenant_id uuid, last_at timestamptz)
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
    SELECT r.id, coalesce(
        (SELECT max(d.start_at) FROM decision_counts d WHERE d.tenant_id = r.id AND d.seconds = 60),
        (SELECT max(d.start_at) FROM decision_counts d WHERE d.tenant_id = r.id AND d.seconds = 3600)
    )
    FROM unnest(tenants_in_scope(wanted)) r (id)
$$;
GRANT EXECUTE ON FUNCTION find_last_decisions TO admit_app;

-- Registered NASes, and those whose last request was between `since` and `until`.
CREATE OR REPLACE FUNCTION count_tenant_nases(wanted uuid[], since timestamptz, until timestamptz)
    RETURNS TABLE (tenant_id uuid, nases bigint, silent bigint)
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
    SELECT r.id, (SELECT count(*) FROM nases n WHERE n.tenant_id = r.id), (
        SELECT count(*) FROM nas_sightings s
        WHERE s.tenant_id = r.id AND s.last_seen_at >= since AND s.last_seen_at < until
    )
    FROM unnest(tenants_in_scope(wanted)) r (id)
$$;
GRANT EXECUTE ON FUNCTION count_tenant_nases TO admit_app;

-- Valid certificates that expire between now and `until`. Without certificates that have a
-- successor with the same name and profile, as in the view `expiring`. Reads at most `most`
-- certificates of each tenant, those that expire first.
CREATE OR REPLACE FUNCTION count_expiring_certificates(wanted uuid[], until timestamptz, most int)
    RETURNS TABLE (tenant_id uuid, certificates bigint)
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp
    -- Otherwise the planner may read all certificates.
    SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
    SELECT r.id, (
        SELECT count(*) FROM (
            SELECT c.tenant_id, c.common_name, c.profile, c.not_after FROM certificates c
            WHERE c.tenant_id = r.id AND c.status = 'valid' AND c.not_after > now() AND c.not_after < until
            ORDER BY c.not_after, c.serial LIMIT most
        ) c
        WHERE NOT EXISTS (
            SELECT FROM certificates later
            WHERE later.tenant_id = c.tenant_id AND later.common_name = c.common_name
                AND later.profile = c.profile AND later.status = 'valid' AND later.not_after > c.not_after
        )
    )
    FROM unnest(tenants_in_scope(wanted)) r (id)
$$;
GRANT EXECUTE ON FUNCTION count_expiring_certificates TO admit_app;

-- The end of each running trial.
CREATE OR REPLACE FUNCTION list_trial_ends(wanted uuid[]) RETURNS TABLE (tenant_id uuid, ends_at timestamptz)
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
    SELECT t.tenant_id, t.ends_at FROM trials t
    WHERE t.state = 'running' AND t.tenant_id = ANY (tenants_in_scope(wanted))
$$;
GRANT EXECUTE ON FUNCTION list_trial_ends TO admit_app;
