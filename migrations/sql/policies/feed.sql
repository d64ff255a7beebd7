ALTER TABLE feeds ENABLE ROW LEVEL SECURITY;
CREATE POLICY tenant_scope ON feeds TO admit_app, admit_worker
    USING (tenant_id = scope_tenant_id())
    WITH CHECK (tenant_id = scope_tenant_id());

ALTER TABLE feed_marks ENABLE ROW LEVEL SECURITY;
CREATE POLICY tenant_scope ON feed_marks TO admit_app, admit_worker
    USING (tenant_id = scope_tenant_id())
    WITH CHECK (tenant_id = scope_tenant_id());
