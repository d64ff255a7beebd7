-- The enrolment process terminates TLS for all tenants. It accepts certificates of all
-- authorities and determines the tenant later.
CREATE OR REPLACE FUNCTION enrolment_authorities() RETURNS TABLE (id uuid, certificate_der bytea)
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
    SELECT a.id, a.certificate_der FROM certificate_authorities a
    WHERE a.kind IN ('root', 'issuing') AND a.status <> 'revoked'
$$;
GRANT EXECUTE ON FUNCTION enrolment_authorities TO admit_app, admit_public;
