ALTER TABLE certificate_authorities ENABLE ROW LEVEL SECURITY;
CREATE POLICY tenant_scope ON certificate_authorities TO admit_app, admit_public, admit_worker
    USING (tenant_id = scope_tenant_id())
    WITH CHECK (tenant_id = scope_tenant_id());
CREATE POLICY cell_scope ON certificate_authorities FOR SELECT TO admit_cell
    USING (tenant_id IN (SELECT s.tenant_id FROM slots s WHERE s.cell_id = scope_cell_id()));
CREATE POLICY authority_scope ON certificate_authorities FOR SELECT TO admit_app, admit_public
    USING (id = scope_authority_id());
CREATE POLICY authority_scope_issued ON certificate_authorities FOR SELECT TO admit_app, admit_public
    USING (issuer_id = scope_authority_id());

ALTER TABLE certificates ENABLE ROW LEVEL SECURITY;
CREATE POLICY tenant_scope ON certificates TO admit_app, admit_public, admit_worker
    USING (tenant_id = scope_tenant_id())
    WITH CHECK (tenant_id = scope_tenant_id());
CREATE POLICY cell_scope ON certificates FOR SELECT TO admit_cell
    USING (tenant_id IN (SELECT s.tenant_id FROM slots s WHERE s.cell_id = scope_cell_id()));
CREATE POLICY authority_scope ON certificates FOR SELECT TO admit_app, admit_public
    USING (authority_id = scope_authority_id());

ALTER TABLE authority_intents ENABLE ROW LEVEL SECURITY;
CREATE POLICY tenant_scope ON authority_intents TO admit_app, admit_public, admit_worker
    USING (tenant_id = scope_tenant_id())
    WITH CHECK (tenant_id = scope_tenant_id());
CREATE POLICY authority_scope ON authority_intents FOR SELECT TO admit_app, admit_public
    USING (issuer_id = scope_authority_id());

ALTER TABLE certificate_settings ENABLE ROW LEVEL SECURITY;
CREATE POLICY tenant_scope ON certificate_settings TO admit_app, admit_public, admit_worker
    USING (tenant_id = scope_tenant_id())
    WITH CHECK (tenant_id = scope_tenant_id());

ALTER TABLE expiry_warnings ENABLE ROW LEVEL SECURITY;
CREATE POLICY tenant_scope ON expiry_warnings TO admit_app, admit_worker
    USING (tenant_id = scope_tenant_id())
    WITH CHECK (tenant_id = scope_tenant_id());
