-- An address is of a pool of its own tenant.
ALTER TABLE pools ADD CONSTRAINT uq_pools_tenant_id_id UNIQUE (tenant_id, id);
ALTER TABLE pool_addresses
    DROP CONSTRAINT fk_pool_addresses_pool_id_pools,
    ADD CONSTRAINT fk_pool_addresses_tenant_id_pool_id FOREIGN KEY (tenant_id, pool_id)
        REFERENCES pools (tenant_id, id) ON DELETE CASCADE;

-- As before, but of the tenant in scope, or for who looks after all of them.
CREATE OR REPLACE FUNCTION status_work(
    moment timestamptz, list_every interval, which uuid DEFAULT NULL
) RETURNS TABLE (tenant_id uuid, authority_id uuid, list_due boolean, list_scheduled boolean, signer_due boolean)
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
    SELECT * FROM (
        SELECT a.tenant_id, a.id,
            EXISTS (SELECT FROM revocation_work w WHERE w.authority_id = a.id),
            -- What was made in the future was made by a clock that was wrong.
            l.scheduled_at IS NULL OR l.scheduled_at <= moment - list_every OR l.this_update > moment + interval '5 minutes',
            NOT EXISTS (
                SELECT FROM ocsp_signers s
                WHERE s.authority_id = a.id AND s.certificate_der IS NOT NULL AND s.not_before <= moment
                    -- The next one comes at half time, but none outlives the authority.
                    AND (s.not_after > moment + (s.not_after - s.not_before) / 2 OR s.not_after >= a.not_after)
            )
        FROM certificate_authorities a LEFT JOIN revocation_lists l ON l.authority_id = a.id
        -- A root's key may be away: what is due waits for it.
        WHERE a.kind <> 'external' AND a.key_sealed IS NOT NULL AND a.not_after > moment
            AND (l.retry_at IS NULL OR l.retry_at <= moment OR l.retry_at > moment + interval '5 minutes')
            AND (which IS NULL OR a.id = which)
            AND ((SELECT scope_is_platform()) OR a.tenant_id = (SELECT scope_tenant_id()))
    ) AS work (tenant_id, authority_id, list_due, list_scheduled, signer_due)
    WHERE work.list_due OR work.list_scheduled OR work.signer_due
$$;
