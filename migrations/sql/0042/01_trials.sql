CREATE TABLE sign_ups (
    id uuid CONSTRAINT pk_sign_ups PRIMARY KEY,
    email text NOT NULL,
    domain text NOT NULL,
    organisation text NOT NULL,
    token_sha256 bytea CONSTRAINT uq_sign_ups_token_sha256 UNIQUE,
    from_address inet,
    expires_at timestamptz NOT NULL,
    state text NOT NULL DEFAULT 'asked'
        CONSTRAINT ck_sign_ups_state CHECK (state IN ('asked', 'known', 'provisioning', 'done', 'failed')),
    confirmed_at timestamptz,
    slug text NOT NULL DEFAULT '',
    person_id uuid,
    due_at timestamptz NOT NULL DEFAULT now(),
    attempts int NOT NULL DEFAULT 0,
    created_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX ix_sign_ups_created_at ON sign_ups (created_at);
CREATE INDEX ix_sign_ups_provisioning ON sign_ups (due_at) WHERE state = 'provisioning';
ALTER TABLE sign_ups ENABLE ROW LEVEL SECURITY;
CREATE POLICY platform_scope ON sign_ups TO admit_app, admit_worker
    USING (scope_is_platform()) WITH CHECK (scope_is_platform());
GRANT SELECT, INSERT, UPDATE ON sign_ups TO admit_app, admit_worker;
GRANT DELETE ON sign_ups TO admit_worker;

CREATE TABLE trials (
    tenant_id uuid CONSTRAINT pk_trials PRIMARY KEY CONSTRAINT fk_trials_tenant_id REFERENCES tenants ON DELETE CASCADE,
    sign_up_id uuid NOT NULL CONSTRAINT uq_trials_sign_up_id UNIQUE,
    organisation text NOT NULL,
    email text NOT NULL,
    state text NOT NULL DEFAULT 'running' CONSTRAINT ck_trials_state CHECK (state IN ('running', 'ended', 'converted')),
    ends_at timestamptz NOT NULL,
    purged_at timestamptz NOT NULL,
    most_endpoints int NOT NULL,
    most_authentications int NOT NULL,
    reminded int[] NOT NULL DEFAULT '{}',
    over_since timestamptz,
    created_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX ix_trials_open ON trials (ends_at) WHERE state <> 'converted';
ALTER TABLE trials ENABLE ROW LEVEL SECURITY;
-- The tenant sees its own, and locks it while it counts its devices; the platform decides about it.
CREATE POLICY platform_scope ON trials TO admit_app, admit_worker
    USING (scope_is_platform()) WITH CHECK (scope_is_platform());
CREATE POLICY tenant_scope ON trials FOR SELECT TO admit_app, admit_worker USING (tenant_id = scope_tenant_id());
CREATE POLICY tenant_lock ON trials FOR UPDATE TO admit_app, admit_worker
    USING (tenant_id = scope_tenant_id()) WITH CHECK (scope_is_platform());
GRANT SELECT, INSERT, UPDATE ON trials TO admit_app, admit_worker;

-- The worker goes on with what the API could not finish, and removes tenants whose trial ended long ago.
GRANT DELETE ON retention_holds TO admit_worker;
GRANT INSERT ON memberships TO admit_worker;
GRANT INSERT, DELETE ON membership_tenants TO admit_worker;
GRANT EXECUTE ON FUNCTION ensure_person(text, text) TO admit_worker;
