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
