-- Due lists and signers of all authorities or of one. Only of the tenant in scope, or of all
-- tenants for the platform.
CREATE OR REPLACE FUNCTION status_work(
    moment timestamptz, list_every interval, which uuid DEFAULT NULL
) RETURNS TABLE (tenant_id uuid, authority_id uuid, list_due boolean, list_scheduled boolean, signer_due boolean)
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
    SELECT * FROM (
        SELECT a.tenant_id, a.id,
            EXISTS (SELECT FROM revocation_work w WHERE w.authority_id = a.id),
            -- A list from the future comes from a wrong clock.
            l.scheduled_at IS NULL OR l.scheduled_at <= moment - list_every
                OR l.this_update > moment + interval '5 minutes',
            NOT EXISTS (
                SELECT FROM ocsp_signers s
                WHERE s.authority_id = a.id AND s.certificate_der IS NOT NULL AND s.not_before <= moment
                    -- The next signer comes at half time. No signer outlives the authority.
                    AND (s.not_after > moment + (s.not_after - s.not_before) / 2 OR s.not_after >= a.not_after)
            )
        FROM certificate_authorities a LEFT JOIN revocation_lists l ON l.authority_id = a.id
        -- A root's key may be offline. Then its lists and signers wait.
        WHERE a.kind <> 'external' AND a.key_sealed IS NOT NULL AND a.not_after > moment
            AND (l.retry_at IS NULL OR l.retry_at <= moment OR l.retry_at > moment + interval '5 minutes')
            AND (which IS NULL OR a.id = which)
            AND ((SELECT scope_is_platform()) OR a.tenant_id = (SELECT scope_tenant_id()))
    ) AS work (tenant_id, authority_id, list_due, list_scheduled, signer_due)
    WHERE work.list_due OR work.list_scheduled OR work.signer_due
$$;
GRANT EXECUTE ON FUNCTION status_work TO admit_app, admit_worker;

-- OCSP answers thousands of requests per second, so this is one statement without a scope. It
-- returns what the authority's scope would show.
CREATE OR REPLACE FUNCTION certificate_statuses(authority uuid, serials bytea[])
    RETURNS TABLE (serial bytea, status text, revoked_at timestamptz, revocation_reason text, not_before timestamptz)
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
    SELECT c.serial, c.status, c.revoked_at, c.revocation_reason, c.not_before
    FROM certificates c WHERE c.authority_id = authority AND c.serial = ANY (serials)
$$;
GRANT EXECUTE ON FUNCTION certificate_statuses TO admit_app, admit_public;

-- By statement, because a list of 100,000 serials arrives in one.
CREATE OR REPLACE FUNCTION record_external_statuses() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    INSERT INTO replica_changes (tenant_id, noun, key)
    SELECT tenant_id, 'external-status', authority_id || ':' || encode(serial, 'hex') FROM changed;
    PERFORM pg_notify('replica_changes', '');
    RETURN NULL;
END
$$;

-- The worker processes one tenant at a time.
CREATE OR REPLACE FUNCTION tenants_with_external_authorities() RETURNS SETOF uuid
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
    SELECT DISTINCT tenant_id FROM status_sources
$$;
GRANT EXECUTE ON FUNCTION tenants_with_external_authorities TO admit_worker;
