-- What is in scope is asked once for a statement, not three times for each row that a search looks through.
ALTER POLICY audit_scope ON audit_log
    USING (
        tenant_id = (SELECT scope_tenant_id()) OR msp_id = (SELECT scope_msp_id()) OR (SELECT scope_is_platform())
    );
