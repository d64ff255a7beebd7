ALTER TABLE account_mails ENABLE ROW LEVEL SECURITY;
CREATE POLICY owner_scope ON account_mails FOR INSERT TO admit_app
    WITH CHECK (
        kind = 'invitation'
        AND (msp_id = scope_msp_id()
        OR tenant_id = scope_tenant_id()
        OR scope_is_platform())
    );
CREATE POLICY working_off ON account_mails TO admit_worker USING (scope_is_platform());
