ALTER TABLE jobs ENABLE ROW LEVEL SECURITY;
CREATE POLICY owner_scope ON jobs TO admit_app, admit_worker
    USING (msp_id = scope_msp_id() OR tenant_id = scope_tenant_id() OR scope_is_platform())
    WITH CHECK (msp_id = scope_msp_id() OR tenant_id = scope_tenant_id() OR scope_is_platform());

ALTER TABLE idempotency_keys ENABLE ROW LEVEL SECURITY;
CREATE POLICY owner_scope ON idempotency_keys TO admit_app
    USING (msp_id = scope_msp_id() OR tenant_id = scope_tenant_id() OR scope_is_platform())
    WITH CHECK (msp_id = scope_msp_id() OR tenant_id = scope_tenant_id() OR scope_is_platform());
CREATE POLICY pruning ON idempotency_keys TO admit_worker USING (scope_is_platform());
