-- What somebody is to be written about an account. Whoever asks writes a row and looks nothing up: the worker does.
CREATE TABLE account_mails (
    id bigint CONSTRAINT pk_account_mails PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    kind text NOT NULL CONSTRAINT ck_account_mails_kind CHECK (kind IN ('forgotten', 'invitation')),
    -- As it was typed; perhaps nobody's.
    email text NOT NULL CONSTRAINT ck_account_mails_email CHECK (length(email) <= 255),
    -- Of an invitation whose member it is; neither: the platform's.
    msp_id uuid CONSTRAINT fk_account_mails_msp_id REFERENCES msps ON DELETE CASCADE,
    tenant_id uuid CONSTRAINT fk_account_mails_tenant_id REFERENCES tenants ON DELETE CASCADE,
    actor text NOT NULL,
    -- Asked for in a browser in which the person has signed in before.
    is_known boolean NOT NULL DEFAULT false,
    address inet,
    request_id text,
    created_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT ck_account_mails_owner CHECK (num_nonnulls(msp_id, tenant_id) <= 1)
);
CREATE INDEX ix_account_mails_msp_id ON account_mails (msp_id) WHERE msp_id IS NOT NULL;
CREATE INDEX ix_account_mails_tenant_id ON account_mails (tenant_id) WHERE tenant_id IS NOT NULL;
ALTER TABLE account_mails ENABLE ROW LEVEL SECURITY;
CREATE POLICY owner_scope ON account_mails FOR INSERT TO admit_app
    WITH CHECK (kind = 'invitation' AND (msp_id = scope_msp_id() OR tenant_id = scope_tenant_id() OR scope_is_platform()));
CREATE POLICY working_off ON account_mails TO admit_worker USING (scope_is_platform());
GRANT INSERT ON account_mails TO admit_app;
GRANT SELECT, UPDATE, DELETE ON account_mails TO admit_worker;

-- Of somebody who has forgotten; in any scope. False where too many wait: a worker that is away fills no disk.
CREATE FUNCTION ask_for_link(typed text, known boolean, asked_from inet, request text) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    IF (SELECT count(*) FROM (SELECT FROM account_mails LIMIT 10000) waiting) >= 10000 THEN
        RETURN false;
    END IF;
    INSERT INTO account_mails (kind, email, actor, is_known, address, request_id)
        VALUES ('forgotten', typed, 'system:sign-in', known, asked_from, request);
    RETURN true;
END
$$;
REVOKE EXECUTE ON FUNCTION ask_for_link(text, boolean, inet, text) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION ask_for_link(text, boolean, inet, text) TO admit_app;

-- The worker makes the links, and looks whether who was invited comes by a provider.
CREATE POLICY working_off ON password_links TO admit_worker
    USING (scope_is_platform()) WITH CHECK (scope_is_platform());
GRANT SELECT, INSERT, UPDATE, DELETE ON password_links TO admit_worker;
CREATE INDEX ix_password_links_expires_at ON password_links (expires_at);
CREATE POLICY working_off ON sign_ons FOR SELECT TO admit_worker USING (scope_is_platform());
GRANT SELECT (id, msp_id, tenant_id, settings) ON sign_ons TO admit_worker;
