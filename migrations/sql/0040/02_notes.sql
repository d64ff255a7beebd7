-- Of certificates that are good in self-tests alone nobody is told: as in migration 0025 but for those.
CREATE OR REPLACE FUNCTION note_certificates() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp
    -- A plan that was made for one row must not be that of thousands.
    SET enable_nestloop = off AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        INSERT INTO event_notes (tenant_id, kind, what, happened_at, said)
        SELECT c.tenant_id, 'certificate', CASE WHEN c.renews_id IS NULL THEN 'issued' ELSE 'renewed' END, now(),
            certificate_note(to_jsonb(c))
        FROM added c WHERE c.status = 'valid' AND c.profile <> 'eap-client-self-test' ORDER BY c.id;
        RETURN NULL;
    END IF;
    INSERT INTO event_notes (tenant_id, kind, what, happened_at, said)
    SELECT c.tenant_id, 'certificate', CASE
            WHEN c.status <> 'valid' THEN c.status
            WHEN b.status = 'suspended' THEN 'reinstated'
            WHEN c.renews_id IS NULL THEN 'issued'
            ELSE 'renewed' END, coalesce(CASE WHEN c.status <> 'valid' THEN c.revoked_at END, now()), certificate_note(to_jsonb(c))
    FROM before b JOIN changed c ON c.id = b.id AND c.status <> b.status
    WHERE c.status IN ('valid', 'suspended', 'revoked') AND c.profile <> 'eap-client-self-test'
    ORDER BY c.id;
    RETURN NULL;
END
$$;
