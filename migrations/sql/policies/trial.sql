ALTER TABLE sign_ups ENABLE ROW LEVEL SECURITY;
CREATE POLICY platform_scope ON sign_ups TO admit_app, admit_worker
    USING (scope_is_platform())
    WITH CHECK (scope_is_platform());

ALTER TABLE trials ENABLE ROW LEVEL SECURITY;
CREATE POLICY tenant_scope ON trials FOR SELECT TO admit_app, admit_worker
    USING (tenant_id = scope_tenant_id());
-- The platform manages trials. The tenant sees its own, and locks it to count its devices.
CREATE POLICY platform_scope ON trials TO admit_app, admit_worker
    USING (scope_is_platform())
    WITH CHECK (scope_is_platform());
CREATE POLICY tenant_lock ON trials FOR UPDATE TO admit_app, admit_worker
    USING (tenant_id = scope_tenant_id())
    WITH CHECK (scope_is_platform());
