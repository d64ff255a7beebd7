ALTER TABLE sign_ons ENABLE ROW LEVEL SECURITY;
CREATE POLICY owner_scope ON sign_ons TO admit_app
    USING (msp_id = scope_msp_id() OR tenant_id = scope_tenant_id())
    WITH CHECK (msp_id = scope_msp_id() OR tenant_id = scope_tenant_id());
CREATE POLICY credential_scope ON sign_ons FOR SELECT TO admit_app USING (id::text = scope_credential_id());
CREATE POLICY working_off ON sign_ons FOR SELECT TO admit_worker USING (scope_is_platform());

ALTER TABLE sign_on_links ENABLE ROW LEVEL SECURITY;
CREATE POLICY owner_scope ON sign_on_links TO admit_app
    USING (sign_on_id IN (
        SELECT s.id FROM sign_ons s WHERE s.msp_id = scope_msp_id() OR s.tenant_id = scope_tenant_id()
    ))
    WITH CHECK (sign_on_id IN (
        SELECT s.id FROM sign_ons s WHERE s.msp_id = scope_msp_id() OR s.tenant_id = scope_tenant_id()
    ));

ALTER TABLE totps ENABLE ROW LEVEL SECURITY;
CREATE POLICY person_scope ON totps TO admit_app
    USING (person_id = scope_person_id())
    WITH CHECK (person_id = scope_person_id());

ALTER TABLE passkeys ENABLE ROW LEVEL SECURITY;
CREATE POLICY person_scope ON passkeys TO admit_app
    USING (person_id = scope_person_id())
    WITH CHECK (person_id = scope_person_id());
-- Authentication sees one passkey by its id.
CREATE POLICY credential_scope ON passkeys FOR SELECT TO admit_app
    USING (credential_id = scope_credential_id());

ALTER TABLE recovery_codes ENABLE ROW LEVEL SECURITY;
CREATE POLICY person_scope ON recovery_codes TO admit_app
    USING (person_id = scope_person_id())
    WITH CHECK (person_id = scope_person_id());

ALTER TABLE password_links ENABLE ROW LEVEL SECURITY;
CREATE POLICY person_scope ON password_links TO admit_app
    USING (person_id = scope_person_id())
    WITH CHECK (person_id = scope_person_id());
CREATE POLICY credential_scope ON password_links FOR SELECT TO admit_app
    USING (public_id = scope_credential_id());
-- The worker creates the links, and checks whether an invited person uses single sign-on.
CREATE POLICY working_off ON password_links TO admit_worker
    USING (scope_is_platform())
    WITH CHECK (scope_is_platform());

ALTER TABLE sign_in_rules ENABLE ROW LEVEL SECURITY;
CREATE POLICY owner_scope ON sign_in_rules TO admit_app
    USING (msp_id = scope_msp_id() OR tenant_id = scope_tenant_id() OR scope_is_platform())
    WITH CHECK (msp_id = scope_msp_id() OR tenant_id = scope_tenant_id() OR scope_is_platform());

ALTER TABLE sign_in_attempts ENABLE ROW LEVEL SECURITY;
CREATE POLICY pruning ON sign_in_attempts TO admit_worker USING (scope_is_platform());

ALTER TABLE spent_challenges ENABLE ROW LEVEL SECURITY;
CREATE POLICY pruning ON spent_challenges TO admit_worker USING (scope_is_platform());

ALTER TABLE sign_in_failures ENABLE ROW LEVEL SECURITY;
CREATE POLICY person_scope ON sign_in_failures FOR SELECT TO admit_app
    USING (subject_id = scope_person_id());
CREATE POLICY working_off ON sign_in_failures TO admit_worker
    USING (scope_is_platform())
    WITH CHECK (scope_is_platform());
