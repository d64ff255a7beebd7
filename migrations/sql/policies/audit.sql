ALTER TABLE audit_log ENABLE ROW LEVEL SECURITY;
-- Subqueries, so that PostgreSQL evaluates the scope once per statement instead of once per row.
CREATE POLICY audit_scope ON audit_log TO admit_app, admit_public, admit_worker
    USING (
        tenant_id = (SELECT scope_tenant_id())
        OR msp_id = (SELECT scope_msp_id())
        OR (SELECT scope_is_platform())
    )
    WITH CHECK (tenant_id = scope_tenant_id() OR msp_id = scope_msp_id() OR scope_is_platform());
-- A person's changes to their own account.
CREATE POLICY person_scope ON audit_log FOR INSERT TO admit_app
    WITH CHECK (tenant_id IS NULL AND msp_id IS NULL AND scope_person_id() IS NOT NULL);
-- The audit logs of a person's memberships record the person's sign-in.
CREATE POLICY own_places ON audit_log FOR INSERT TO admit_app
    WITH CHECK (EXISTS (
        SELECT FROM memberships m
        WHERE m.person_id = scope_person_id()
            AND (m.msp_id = audit_log.msp_id OR m.tenant_id = audit_log.tenant_id)
            AND num_nonnulls(audit_log.msp_id, audit_log.tenant_id) = 1
    ));

ALTER TABLE audit_keys ENABLE ROW LEVEL SECURITY;
-- Public keys are readable by all. Private keys are sealed, and column grants hide them from the
-- API.
CREATE POLICY everybody ON audit_keys FOR SELECT TO admit_app, admit_worker USING (true);
CREATE POLICY platform_scope ON audit_keys FOR INSERT TO admit_worker WITH CHECK (scope_is_platform());

ALTER TABLE audit_chains ENABLE ROW LEVEL SECURITY;
CREATE POLICY owner_scope ON audit_chains TO admit_app, admit_worker
    USING (tenant_id = scope_tenant_id() OR msp_id = scope_msp_id() OR scope_is_platform())
    WITH CHECK (scope_is_platform());

ALTER TABLE audit_seals ENABLE ROW LEVEL SECURITY;
CREATE POLICY owner_scope ON audit_seals TO admit_app, admit_worker
    USING (scope_is_platform() OR chain_id IN (SELECT c.id FROM audit_chains c))
    WITH CHECK (scope_is_platform());

ALTER TABLE audit_unsealed ENABLE ROW LEVEL SECURITY;
CREATE POLICY platform_scope ON audit_unsealed TO admit_worker USING (scope_is_platform());
