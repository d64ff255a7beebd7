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
