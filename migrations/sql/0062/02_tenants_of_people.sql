-- A person sees the tenants where one of its memberships reaches; which of them a request is about, and what may be done
-- there, is the application's to say (nac.accounts.grants).
CREATE FUNCTION tenants_of_person() RETURNS SETOF uuid
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
    SELECT m.tenant_id FROM memberships m WHERE m.person_id = scope_person_id() AND m.tenant_id IS NOT NULL
    UNION ALL
    SELECT t.id FROM memberships m JOIN tenants t ON t.msp_id = m.msp_id
    WHERE m.person_id = scope_person_id() AND NOT m.has_chosen
    UNION ALL
    SELECT t.id FROM memberships m
    JOIN membership_tenants c ON c.membership_id = m.id JOIN tenants t ON t.id = c.tenant_id AND t.msp_id = m.msp_id
    WHERE m.person_id = scope_person_id()
$$;
REVOKE EXECUTE ON FUNCTION tenants_of_person() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION tenants_of_person() TO admit_app;
CREATE POLICY person_scope ON tenants FOR SELECT TO admit_app
    USING (scope_person_id() IS NOT NULL AND id IN (SELECT tenants_of_person()));
