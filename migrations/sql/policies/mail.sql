ALTER TABLE mails ENABLE ROW LEVEL SECURITY;
CREATE POLICY owner_scope ON mails TO admit_app, admit_worker
    USING (tenant_id = scope_tenant_id() OR scope_is_platform())
    WITH CHECK (tenant_id = scope_tenant_id() OR scope_is_platform());
