ALTER TABLE retention_limits ENABLE ROW LEVEL SECURITY;
CREATE POLICY read_by_all ON retention_limits FOR SELECT TO admit_app, admit_worker USING (true);
CREATE POLICY platform_scope ON retention_limits TO admit_app
    USING (scope_is_platform())
    WITH CHECK (scope_is_platform());

ALTER TABLE retention_settings ENABLE ROW LEVEL SECURITY;
CREATE POLICY tenant_scope ON retention_settings TO admit_app, admit_worker
    USING (tenant_id = scope_tenant_id())
    WITH CHECK (tenant_id = scope_tenant_id());

ALTER TABLE retention_holds ENABLE ROW LEVEL SECURITY;
CREATE POLICY tenant_scope ON retention_holds TO admit_app, admit_worker
    USING (tenant_id = scope_tenant_id())
    WITH CHECK (tenant_id = scope_tenant_id());

ALTER TABLE retention_notices ENABLE ROW LEVEL SECURITY;
CREATE POLICY tenant_scope ON retention_notices TO admit_app, admit_worker
    USING (tenant_id = scope_tenant_id())
    WITH CHECK (tenant_id = scope_tenant_id());

ALTER TABLE log_sizes ENABLE ROW LEVEL SECURITY;
CREATE POLICY tenant_scope ON log_sizes TO admit_app, admit_worker
    USING (tenant_id = scope_tenant_id())
    WITH CHECK (tenant_id = scope_tenant_id());

ALTER TABLE log_measures ENABLE ROW LEVEL SECURITY;
CREATE POLICY platform_scope ON log_measures FOR SELECT TO admit_worker USING (scope_is_platform());

ALTER TABLE retention_terms ENABLE ROW LEVEL SECURITY;
CREATE POLICY tenant_scope ON retention_terms TO admit_app, admit_worker
    USING (tenant_id = scope_tenant_id())
    WITH CHECK (tenant_id = scope_tenant_id());

ALTER TABLE early_deletions ENABLE ROW LEVEL SECURITY;
CREATE POLICY tenant_scope ON early_deletions TO admit_app, admit_worker
    USING (tenant_id = scope_tenant_id())
    WITH CHECK (tenant_id = scope_tenant_id());

ALTER TABLE retention_clock ENABLE ROW LEVEL SECURITY;
CREATE POLICY platform_scope ON retention_clock TO admit_app, admit_worker
    USING (scope_is_platform())
    WITH CHECK (scope_is_platform());
