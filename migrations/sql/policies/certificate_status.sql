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

ALTER TABLE status_sources ENABLE ROW LEVEL SECURITY;
CREATE POLICY tenant_scope ON status_sources TO admit_app, admit_worker
    USING (tenant_id = scope_tenant_id())
    WITH CHECK (tenant_id = scope_tenant_id());
CREATE POLICY cell_scope ON status_sources FOR SELECT TO admit_cell
    USING (tenant_id IN (SELECT s.tenant_id FROM slots s WHERE s.cell_id = scope_cell_id()));

ALTER TABLE external_certificates ENABLE ROW LEVEL SECURITY;
CREATE POLICY tenant_scope ON external_certificates TO admit_app, admit_worker
    USING (tenant_id = scope_tenant_id())
    WITH CHECK (tenant_id = scope_tenant_id());
CREATE POLICY cell_scope ON external_certificates TO admit_cell
    USING (tenant_id IN (SELECT s.tenant_id FROM slots s WHERE s.cell_id = scope_cell_id()))
    WITH CHECK (tenant_id IN (SELECT s.tenant_id FROM slots s WHERE s.cell_id = scope_cell_id()));

ALTER TABLE external_statuses ENABLE ROW LEVEL SECURITY;
CREATE POLICY tenant_scope ON external_statuses TO admit_app, admit_worker
    USING (tenant_id = scope_tenant_id())
    WITH CHECK (tenant_id = scope_tenant_id());
CREATE POLICY cell_scope ON external_statuses FOR SELECT TO admit_cell
    USING (tenant_id IN (SELECT s.tenant_id FROM slots s WHERE s.cell_id = scope_cell_id()));
