ALTER TABLE platform_alarms ENABLE ROW LEVEL SECURITY;
CREATE POLICY platform_scope ON platform_alarms TO admit_app, admit_worker
    USING (scope_is_platform())
    WITH CHECK (scope_is_platform());
