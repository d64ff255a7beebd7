-- Ever: radiusd may remember an authority that was removed.
ALTER TABLE tenants
    ADD COLUMN trusts_external boolean NOT NULL DEFAULT false,
    -- Goes up where radiusd must be exchanged to hold what is trusted: OpenSSL forgets no authority, and looks for no other
    -- of a name that it holds.
    ADD COLUMN trust_generation int NOT NULL DEFAULT 0,
    ADD COLUMN status_failure text NOT NULL DEFAULT 'soft'
        CONSTRAINT ck_tenants_status_failure CHECK (status_failure IN ('soft', 'hard'));
UPDATE tenants t SET trusts_external = true
WHERE EXISTS (SELECT FROM certificate_authorities a WHERE a.tenant_id = t.id AND a.kind = 'external');

-- Whether Admit made the authority of this key (RFC 5280 4.2.1.2, first method), for whichever tenant; which, it tells nobody.
CREATE FUNCTION is_made_here(key_identifier bytea) RETURNS boolean
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
    SELECT EXISTS (SELECT FROM certificate_authorities a WHERE a.kind <> 'external' AND a.key_id = key_identifier)
$$;
REVOKE EXECUTE ON FUNCTION is_made_here(bytea) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION is_made_here(bytea) TO admit_app;
