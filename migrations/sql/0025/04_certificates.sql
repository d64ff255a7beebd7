-- `c` is the row.
CREATE FUNCTION certificate_note(c jsonb) RETURNS jsonb LANGUAGE sql STABLE AS $$
    SELECT jsonb_build_object(
        'serial', ltrim(c ->> 'serial', '\x'), 'name', c -> 'common_name', 'subject', c -> 'subject', 'profile', c -> 'profile',
        'not_before', c -> 'not_before', 'not_after', c -> 'not_after', 'reason', c -> 'revocation_reason'
    )
$$;
CREATE FUNCTION authority_note(a certificate_authorities) RETURNS jsonb LANGUAGE sql STABLE AS $$
    SELECT jsonb_build_object(
        'serial', '', 'name', a.name, 'subject', a.subject, 'profile', a.kind || '-authority',
        'not_before', a.not_before, 'not_after', a.not_after, 'reason', a.revocation_reason
    )
$$;

-- A row is there before its certificate is signed: it counts from when it is valid.
CREATE FUNCTION note_certificates() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp
    -- A plan that was made for one row must not be that of thousands.
    SET enable_nestloop = off AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        INSERT INTO event_notes (tenant_id, kind, what, happened_at, said)
        SELECT c.tenant_id, 'certificate', CASE WHEN c.renews_id IS NULL THEN 'issued' ELSE 'renewed' END, now(),
            certificate_note(to_jsonb(c))
        FROM added c WHERE c.status = 'valid' ORDER BY c.id;
        RETURN NULL;
    END IF;
    INSERT INTO event_notes (tenant_id, kind, what, happened_at, said)
    SELECT c.tenant_id, 'certificate', CASE
            WHEN c.status <> 'valid' THEN c.status
            WHEN b.status = 'suspended' THEN 'reinstated'
            WHEN c.renews_id IS NULL THEN 'issued'
            ELSE 'renewed' END, coalesce(CASE WHEN c.status <> 'valid' THEN c.revoked_at END, now()), certificate_note(to_jsonb(c))
    FROM before b JOIN changed c ON c.id = b.id AND c.status <> b.status
    WHERE c.status IN ('valid', 'suspended', 'revoked')
    ORDER BY c.id;
    RETURN NULL;
END
$$;
CREATE TRIGGER note_added AFTER INSERT ON certificates REFERENCING NEW TABLE AS added
    FOR EACH STATEMENT EXECUTE FUNCTION note_certificates();
CREATE TRIGGER note_changed AFTER UPDATE ON certificates REFERENCING OLD TABLE AS before NEW TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION note_certificates();

-- Of authorities, those that the tenant brings were issued by others.
CREATE FUNCTION note_authority() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    INSERT INTO event_notes (tenant_id, kind, what, happened_at, said)
    SELECT NEW.tenant_id, 'certificate', CASE WHEN TG_OP = 'INSERT' THEN 'issued' ELSE 'revoked' END,
        CASE WHEN TG_OP = 'INSERT' THEN now() ELSE coalesce(NEW.revoked_at, now()) END, authority_note(NEW);
    RETURN NULL;
END
$$;
CREATE TRIGGER note_issued AFTER INSERT ON certificate_authorities FOR EACH ROW
    WHEN (NEW.kind <> 'external') EXECUTE FUNCTION note_authority();
CREATE TRIGGER note_revoked AFTER UPDATE ON certificate_authorities FOR EACH ROW
    WHEN (NEW.status = 'revoked' AND OLD.status <> 'revoked') EXECUTE FUNCTION note_authority();

CREATE FUNCTION note_expiry_warnings() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    INSERT INTO event_notes (tenant_id, kind, what, happened_at, said)
    SELECT w.tenant_id, 'certificate', 'expiring', w.warned_at, s.said || jsonb_build_object('days', w.days)
    FROM added w CROSS JOIN LATERAL (
        SELECT certificate_note(to_jsonb(c)) FROM certificates c WHERE c.tenant_id = w.tenant_id AND c.id = w.subject_id
        UNION ALL
        SELECT authority_note(a) FROM certificate_authorities a WHERE a.tenant_id = w.tenant_id AND a.id = w.subject_id
    ) s (said)
    ORDER BY w.days, w.subject_id;
    RETURN NULL;
END
$$;
CREATE TRIGGER note_warned AFTER INSERT ON expiry_warnings REFERENCING NEW TABLE AS added
    FOR EACH STATEMENT EXECUTE FUNCTION note_expiry_warnings();
REVOKE EXECUTE ON FUNCTION certificate_note(jsonb), authority_note(certificate_authorities), note_certificates(),
    note_authority(), note_expiry_warnings() FROM PUBLIC;
