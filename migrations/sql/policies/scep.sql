ALTER TABLE scep_transactions ENABLE ROW LEVEL SECURITY;
CREATE POLICY tenant_scope ON scep_transactions TO admit_app, admit_public, admit_worker
    USING (tenant_id = scope_tenant_id())
    WITH CHECK (tenant_id = scope_tenant_id());

ALTER TABLE scep_webhooks ENABLE ROW LEVEL SECURITY;
CREATE POLICY tenant_scope ON scep_webhooks TO admit_app, admit_public, admit_worker
    USING (tenant_id = scope_tenant_id())
    WITH CHECK (tenant_id = scope_tenant_id());
