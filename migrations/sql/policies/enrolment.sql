ALTER TABLE enrolment_secrets ENABLE ROW LEVEL SECURITY;
CREATE POLICY tenant_scope ON enrolment_secrets TO admit_app, admit_public, admit_worker
    USING (tenant_id = scope_tenant_id())
    WITH CHECK (tenant_id = scope_tenant_id());
CREATE POLICY enrolment_scope ON enrolment_secrets FOR SELECT TO admit_app, admit_public
    USING (public_id = scope_enrolment_id());
