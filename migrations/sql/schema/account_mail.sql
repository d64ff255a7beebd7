-- Mails about accounts that the worker has to send. The request only inserts a row, because a
-- lookup would reveal whether an account exists.
CREATE TABLE account_mails (
    id bigint CONSTRAINT pk_account_mails PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    kind text NOT NULL CONSTRAINT ck_account_mails_kind CHECK (kind IN ('forgotten', 'invitation')),
    -- As typed. No account may have it.
    email text NOT NULL CONSTRAINT ck_account_mails_email CHECK (length(email) <= 255),
    -- Owner of the membership in an invitation. The platform if both msp_id and tenant_id
    -- are NULL.
    msp_id uuid CONSTRAINT fk_account_mails_msp_id REFERENCES msps ON DELETE CASCADE,
    tenant_id uuid CONSTRAINT fk_account_mails_tenant_id REFERENCES tenants ON DELETE CASCADE,
    actor text NOT NULL,
    -- The request came from a browser in which the person has signed in before.
    is_known boolean NOT NULL DEFAULT false,
    address inet,
    request_id text,
    created_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT ck_account_mails_owner CHECK (num_nonnulls(msp_id, tenant_id) <= 1)
);
CREATE INDEX ix_account_mails_msp_id ON account_mails (msp_id) WHERE msp_id IS NOT NULL;
CREATE INDEX ix_account_mails_tenant_id ON account_mails (tenant_id) WHERE tenant_id IS NOT NULL;
GRANT INSERT ON account_mails TO admit_app;
GRANT SELECT, UPDATE, DELETE ON account_mails TO admit_worker;
