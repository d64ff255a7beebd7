ALTER TABLE people ENABLE ROW LEVEL SECURITY;
-- People see their own row. An MSP and a tenant see their members. Only the person and the
-- platform can change it.
CREATE POLICY person_scope ON people TO admit_app, admit_worker
    USING (id = scope_person_id() OR scope_is_platform())
    WITH CHECK (id = scope_person_id() OR scope_is_platform());
-- A correlated EXISTS. With IN, the planner built the list of all members for each person, and
-- then read all people.
CREATE POLICY member_scope ON people FOR SELECT TO admit_app, admit_worker
    USING (EXISTS (
        SELECT FROM memberships m
        WHERE m.person_id = people.id AND (m.msp_id = scope_msp_id() OR m.tenant_id = scope_tenant_id())
    ));

ALTER TABLE custom_roles ENABLE ROW LEVEL SECURITY;
CREATE POLICY owner_scope ON custom_roles TO admit_app, admit_worker
    USING (msp_id = scope_msp_id() OR tenant_id = scope_tenant_id() OR scope_is_platform())
    WITH CHECK (msp_id = scope_msp_id() OR tenant_id = scope_tenant_id() OR scope_is_platform());
CREATE POLICY person_scope ON custom_roles FOR SELECT TO admit_app, admit_worker
    USING (id IN (SELECT m.custom_role_id FROM memberships m WHERE m.person_id = scope_person_id()));

ALTER TABLE memberships ENABLE ROW LEVEL SECURITY;
CREATE POLICY member_scope ON memberships TO admit_app, admit_worker
    USING (msp_id = scope_msp_id() OR tenant_id = scope_tenant_id() OR scope_is_platform())
    WITH CHECK (msp_id = scope_msp_id() OR tenant_id = scope_tenant_id() OR scope_is_platform());
CREATE POLICY person_scope ON memberships FOR SELECT TO admit_app, admit_worker
    USING (person_id = scope_person_id());

ALTER TABLE membership_tenants ENABLE ROW LEVEL SECURITY;
CREATE POLICY member_scope ON membership_tenants TO admit_app, admit_worker
    USING (membership_id IN (SELECT m.id FROM memberships m))
    WITH CHECK (
        membership_id IN (SELECT m.id FROM memberships m WHERE m.msp_id = scope_msp_id() OR scope_is_platform())
        AND tenant_id IN (SELECT t.id FROM tenants t)
    );

ALTER TABLE api_tokens ENABLE ROW LEVEL SECURITY;
-- The owner lists its tokens. Authentication sees one token by its public id.
CREATE POLICY owner_scope ON api_tokens TO admit_app, admit_worker
    USING (msp_id = scope_msp_id() OR tenant_id = scope_tenant_id() OR scope_is_platform())
    WITH CHECK (msp_id = scope_msp_id() OR tenant_id = scope_tenant_id() OR scope_is_platform());
CREATE POLICY credential_scope ON api_tokens TO admit_app
    USING (public_id = scope_credential_id())
    WITH CHECK (public_id = scope_credential_id());

ALTER TABLE sign_ins ENABLE ROW LEVEL SECURITY;
CREATE POLICY person_scope ON sign_ins TO admit_app, admit_worker
    USING (person_id = scope_person_id() OR scope_is_platform())
    WITH CHECK (person_id = scope_person_id() OR scope_is_platform());
CREATE POLICY credential_scope ON sign_ins TO admit_app
    USING (public_id = scope_credential_id())
    WITH CHECK (public_id = scope_credential_id());
-- The owner of the provider lists and ends its sign-ins. Other sign-ins are visible only to the
-- person.
CREATE POLICY via_is_seen ON sign_ins FOR SELECT TO admit_app
    USING (via_msp_id = scope_msp_id() OR via_tenant_id = scope_tenant_id());
CREATE POLICY via_is_ended ON sign_ins FOR UPDATE TO admit_app
    USING (via_msp_id = scope_msp_id() OR via_tenant_id = scope_tenant_id());

ALTER TABLE account_mails ENABLE ROW LEVEL SECURITY;
CREATE POLICY owner_scope ON account_mails FOR INSERT TO admit_app
    WITH CHECK (
        kind = 'invitation'
        AND (msp_id = scope_msp_id()
        OR tenant_id = scope_tenant_id()
        OR scope_is_platform())
    );
CREATE POLICY working_off ON account_mails TO admit_worker USING (scope_is_platform());
