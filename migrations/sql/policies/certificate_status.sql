ALTER TABLE revocation_lists ENABLE ROW LEVEL SECURITY;
CREATE POLICY tenant_scope ON revocation_lists TO admit_app, admit_public, admit_worker
    USING (tenant_id = scope_tenant_id())
    WITH CHECK (tenant_id = scope_tenant_id());
CREATE POLICY authority_scope ON revocation_lists FOR SELECT TO admit_app, admit_public
    USING (authority_id = scope_authority_id());

ALTER TABLE revocation_work ENABLE ROW LEVEL SECURITY;
CREATE POLICY tenant_scope ON revocation_work TO admit_app, admit_worker
    USING (tenant_id = scope_tenant_id())
    WITH CHECK (tenant_id = scope_tenant_id());

ALTER TABLE ocsp_signers ENABLE ROW LEVEL SECURITY;
CREATE POLICY tenant_scope ON ocsp_signers TO admit_app, admit_public, admit_worker
    USING (tenant_id = scope_tenant_id())
    WITH CHECK (tenant_id = scope_tenant_id());
CREATE POLICY authority_scope ON ocsp_signers FOR SELECT TO admit_app, admit_public
    USING (authority_id = scope_authority_id());
