ALTER TABLE templates ENABLE ROW LEVEL SECURITY;
CREATE POLICY msp_scope ON templates TO admit_app
    USING (msp_id = scope_msp_id())
    WITH CHECK (msp_id = scope_msp_id());

ALTER TABLE template_versions ENABLE ROW LEVEL SECURITY;
CREATE POLICY msp_scope ON template_versions TO admit_app
    USING (msp_id = scope_msp_id())
    WITH CHECK (msp_id = scope_msp_id());

ALTER TABLE template_tenants ENABLE ROW LEVEL SECURITY;
-- Only the MSP's own tenants.
CREATE POLICY msp_scope ON template_tenants TO admit_app
    USING (msp_id = scope_msp_id())
    WITH CHECK (
        msp_id = scope_msp_id()
        AND tenant_id IN (SELECT t.id FROM tenants t WHERE t.msp_id = scope_msp_id())
    );

ALTER TABLE rollouts ENABLE ROW LEVEL SECURITY;
CREATE POLICY msp_scope ON rollouts TO admit_app
    USING (msp_id = scope_msp_id())
    WITH CHECK (msp_id = scope_msp_id());

ALTER TABLE rollout_tenants ENABLE ROW LEVEL SECURITY;
CREATE POLICY msp_scope ON rollout_tenants TO admit_app
    USING (msp_id = scope_msp_id())
    WITH CHECK (
        msp_id = scope_msp_id()
        AND tenant_id IN (SELECT t.id FROM tenants t WHERE t.msp_id = scope_msp_id())
    );
