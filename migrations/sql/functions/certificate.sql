-- Whether Admit created the authority with this key identifier (RFC 5280 4.2.1.2, first method),
-- for any tenant.
CREATE OR REPLACE FUNCTION is_made_here(key_identifier bytea) RETURNS boolean
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
    SELECT EXISTS (SELECT FROM certificate_authorities a WHERE a.kind <> 'external' AND a.key_id = key_identifier)
$$;
GRANT EXECUTE ON FUNCTION is_made_here TO admit_app;

-- Tenants with certificates or authorities that remain unsigned since before the moment.
CREATE OR REPLACE FUNCTION tenants_with_intents(before timestamptz) RETURNS SETOF uuid
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
    SELECT c.tenant_id FROM certificates c WHERE c.status = 'intended' AND c.created_at < before
    UNION
    SELECT i.tenant_id FROM authority_intents i WHERE i.signed_at IS NULL AND i.abandoned_at IS NULL
        AND i.created_at < before
$$;
GRANT EXECUTE ON FUNCTION tenants_with_intents TO admit_worker;

-- Issued certificates of several tenants: with a serial number from `first` to `last`, or a common name that begins
-- with `wanted`, as search_endpoints.
CREATE OR REPLACE FUNCTION search_certificates(tenants uuid[], first bytea, last bytea, wanted text, most int)
    RETURNS TABLE (
        tenant_id uuid, serial text, name text, profile text, status text, not_before timestamptz,
        not_after timestamptz, is_exact boolean
    )
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = public, pg_temp SET plan_cache_mode = force_custom_plan AS $$
#variable_conflict use_column
BEGIN
    tenants := tenants_in_scope(tenants);
    wanted := lower(wanted);
    RETURN QUERY
    WITH found AS (
        (
            SELECT c.id FROM unnest(tenants) t (id) CROSS JOIN LATERAL (
                SELECT c.id FROM certificates c WHERE c.tenant_id = t.id AND c.serial BETWEEN first AND last
                ORDER BY c.serial LIMIT most
            ) c LIMIT 1000
        )
        UNION
        (
            SELECT c.id FROM unnest(tenants) t (id) CROSS JOIN LATERAL (
                SELECT c.id FROM certificates c WHERE c.tenant_id = t.id AND c.common_name_key = wanted LIMIT most
            ) c LIMIT 1000
        )
        UNION
        (
            SELECT c.id FROM unnest(tenants) t (id) CROSS JOIN LATERAL (
                SELECT c.id FROM certificates c
                WHERE c.tenant_id = t.id
                    AND c.common_name_key ~>~ wanted AND c.common_name_key ~<~ (wanted || chr(1114111))
                ORDER BY c.common_name_key USING ~<~ LIMIT most
            ) c LIMIT 1000
        )
    )
    SELECT c.tenant_id, encode(c.serial, 'hex'), c.common_name, c.profile, c.status, c.not_before, c.not_after,
        c.common_name_key = wanted OR coalesce(c.serial = first, false)
    FROM found CROSS JOIN LATERAL (SELECT * FROM certificates c WHERE c.id = found.id LIMIT 1) c
    WHERE c.status IN ('valid', 'suspended', 'revoked')
    ORDER BY 8 DESC, c.not_before DESC, 2 LIMIT most;
END
$$;
GRANT EXECUTE ON FUNCTION search_certificates TO admit_app;
