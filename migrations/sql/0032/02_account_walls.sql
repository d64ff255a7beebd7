-- Whose account a transaction is about, and what was shown to prove it (nac.db.scope).
CREATE FUNCTION scope_person_id() RETURNS uuid LANGUAGE sql STABLE PARALLEL SAFE AS
    $$ SELECT nullif(current_setting('admit.person_id', true), '')::uuid $$;
CREATE FUNCTION scope_credential_id() RETURNS text LANGUAGE sql STABLE PARALLEL SAFE AS
    $$ SELECT nullif(current_setting('admit.credential_id', true), '') $$;
REVOKE EXECUTE ON FUNCTION scope_person_id(), scope_credential_id() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION scope_person_id(), scope_credential_id() TO admit_app, admit_worker;

ALTER TABLE memberships ENABLE ROW LEVEL SECURITY;
CREATE POLICY member_scope ON memberships TO admit_app, admit_worker
    USING (msp_id = scope_msp_id() OR tenant_id = scope_tenant_id() OR scope_is_platform())
    WITH CHECK (msp_id = scope_msp_id() OR tenant_id = scope_tenant_id() OR scope_is_platform());
CREATE POLICY person_scope ON memberships FOR SELECT TO admit_app, admit_worker USING (person_id = scope_person_id());

ALTER TABLE membership_tenants ENABLE ROW LEVEL SECURITY;
CREATE POLICY member_scope ON membership_tenants TO admit_app, admit_worker
    USING (membership_id IN (SELECT m.id FROM memberships m))
    WITH CHECK (
        membership_id IN (SELECT m.id FROM memberships m WHERE m.msp_id = scope_msp_id() OR scope_is_platform())
        AND tenant_id IN (SELECT t.id FROM tenants t)
    );

ALTER TABLE custom_roles ENABLE ROW LEVEL SECURITY;
CREATE POLICY owner_scope ON custom_roles TO admit_app, admit_worker
    USING (msp_id = scope_msp_id() OR tenant_id = scope_tenant_id() OR scope_is_platform())
    WITH CHECK (msp_id = scope_msp_id() OR tenant_id = scope_tenant_id() OR scope_is_platform());
CREATE POLICY person_scope ON custom_roles FOR SELECT TO admit_app, admit_worker
    USING (id IN (SELECT m.custom_role_id FROM memberships m WHERE m.person_id = scope_person_id()));

-- People see themselves; an MSP and a tenant see who is a member of theirs. Nobody but the person and the platform
-- changes them.
ALTER TABLE people ENABLE ROW LEVEL SECURITY;
CREATE POLICY person_scope ON people TO admit_app, admit_worker
    USING (id = scope_person_id() OR scope_is_platform()) WITH CHECK (id = scope_person_id() OR scope_is_platform());
CREATE POLICY member_scope ON people FOR SELECT TO admit_app, admit_worker
    USING (id IN (
        SELECT m.person_id FROM memberships m WHERE m.msp_id = scope_msp_id() OR m.tenant_id = scope_tenant_id()
    ));

-- Found by what was shown; listed by those whose they are.
ALTER TABLE api_tokens ENABLE ROW LEVEL SECURITY;
CREATE POLICY owner_scope ON api_tokens TO admit_app, admit_worker
    USING (msp_id = scope_msp_id() OR tenant_id = scope_tenant_id() OR scope_is_platform())
    WITH CHECK (msp_id = scope_msp_id() OR tenant_id = scope_tenant_id() OR scope_is_platform());
CREATE POLICY credential_scope ON api_tokens TO admit_app
    USING (public_id = scope_credential_id()) WITH CHECK (public_id = scope_credential_id());

ALTER TABLE sign_ins ENABLE ROW LEVEL SECURITY;
CREATE POLICY person_scope ON sign_ins TO admit_app, admit_worker
    USING (person_id = scope_person_id() OR scope_is_platform())
    WITH CHECK (person_id = scope_person_id() OR scope_is_platform());
CREATE POLICY credential_scope ON sign_ins TO admit_app
    USING (public_id = scope_credential_id()) WITH CHECK (public_id = scope_credential_id());

-- What a person does to his own account.
CREATE POLICY person_scope ON audit_log FOR INSERT TO admit_app
    WITH CHECK (tenant_id IS NULL AND msp_id IS NULL AND scope_person_id() IS NOT NULL);

-- The account of an address, made where there is none: who invites learns nothing of whether there was one.
CREATE FUNCTION person_of_email(wanted text) RETURNS uuid
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
    SELECT p.id FROM people p WHERE p.email = lower(wanted)
$$;
CREATE FUNCTION ensure_person(wanted text, called text) RETURNS uuid
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    found uuid;
BEGIN
    INSERT INTO people (email, name) VALUES (lower(wanted), called) ON CONFLICT (email) DO NOTHING;
    SELECT p.id INTO STRICT found FROM people p WHERE p.email = lower(wanted);
    RETURN found;
END
$$;
REVOKE EXECUTE ON FUNCTION person_of_email(text), ensure_person(text, text) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION person_of_email(text), ensure_person(text, text) TO admit_app;

GRANT SELECT, INSERT, UPDATE, DELETE ON people, memberships, membership_tenants, custom_roles TO admit_app;
GRANT SELECT, INSERT, UPDATE ON api_tokens, sign_ins TO admit_app;
GRANT SELECT ON people, memberships, membership_tenants, custom_roles TO admit_worker;
GRANT SELECT, DELETE ON api_tokens, sign_ins TO admit_worker;

-- A tenant by its id or slug, and whose it is: nothing else is told of one that the asker may not see.
CREATE FUNCTION find_tenant(key text) RETURNS TABLE (tenant_id uuid, msp_id uuid)
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
    SELECT t.id, t.msp_id FROM tenants t WHERE t.slug = key OR t.id::text = key
$$;
CREATE FUNCTION find_msp(key text) RETURNS uuid
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
    SELECT m.id FROM msps m WHERE m.slug = key OR m.id::text = key
$$;
REVOKE EXECUTE ON FUNCTION find_tenant(text), find_msp(text) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION find_tenant(text), find_msp(text) TO admit_app;
