-- What the processes `public` and `enrolment` do: tell the status of certificates, hand out certificates and lists,
-- redeem secrets. Who takes one of them over finds no person, password, RADIUS secret, session, policy or log.
DO $$
DECLARE
    each record;
BEGIN
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'admit_public') THEN
        RAISE EXCEPTION 'the role admit_public is missing'
            USING HINT = 'Run migrations/roles.sql as the cluster''s superuser first.';
    END IF;
    EXECUTE format('GRANT CONNECT ON DATABASE %I TO admit_public', current_database());
    -- Row-level security as the application has it, but nothing in the name of a person.
    FOR each IN
        SELECT tablename, policyname, roles FROM pg_policies
        WHERE schemaname = 'public' AND 'admit_app' = ANY (roles) AND tablename IN (
            'audit_log', 'authority_intents', 'certificate_authorities', 'certificate_settings', 'certificates',
            'enrolment_secrets', 'ocsp_signers', 'revocation_lists', 'scep_transactions', 'scep_webhooks', 'tenants'
        ) AND concat(qual, with_check) !~ 'scope_person_id|_of_person'
    LOOP
        EXECUTE format(
            'ALTER POLICY %I ON %I TO %s, admit_public',
            each.policyname, each.tablename, array_to_string(each.roles, ', ')
        );
    END LOOP;
END
$$;

GRANT SELECT ON
    alembic_version, authority_intents, certificate_authorities, certificate_settings, certificates, enrolment_secrets,
    ocsp_signers, revocation_lists, scep_transactions, scep_webhooks, tenants
    TO admit_public;
GRANT INSERT ON audit_log, certificates, scep_transactions TO admit_public;
GRANT UPDATE (certificate_der, key_sealed, public_key_sha256, status) ON certificates TO admit_public;
GRANT UPDATE (uses, last_used_at) ON enrolment_secrets TO admit_public;
-- What SELECT ... FOR SHARE asks for.
GRANT UPDATE (created_at) ON tenants TO admit_public;
GRANT EXECUTE ON FUNCTION
    scope_tenant_id(), scope_msp_id(), scope_is_platform(), scope_authority_id(), scope_enrolment_id(),
    certificate_statuses(uuid, bytea[]), enrolment_authorities()
    TO admit_public;
