CREATE TABLE sign_ups (
    id uuid CONSTRAINT pk_sign_ups PRIMARY KEY,
    email text NOT NULL,
    domain text NOT NULL,
    organisation text NOT NULL,
    token_sha256 bytea CONSTRAINT uq_sign_ups_token_sha256 UNIQUE,
    from_address inet,
    expires_at timestamptz NOT NULL,
    state text NOT NULL DEFAULT 'requested'
        CONSTRAINT ck_sign_ups_state CHECK (state IN ('requested', 'known', 'provisioning', 'done', 'failed')),
    confirmed_at timestamptz,
    slug text NOT NULL DEFAULT '',
    person_id uuid,
    due_at timestamptz NOT NULL DEFAULT now(),
    attempts int NOT NULL DEFAULT 0,
    created_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX ix_sign_ups_created_at ON sign_ups (created_at);
CREATE INDEX ix_sign_ups_provisioning ON sign_ups (due_at) WHERE state = 'provisioning';
GRANT SELECT, INSERT, UPDATE ON sign_ups TO admit_app;
GRANT SELECT, INSERT, UPDATE, DELETE ON sign_ups TO admit_worker;

CREATE TABLE trials (
    tenant_id uuid
        CONSTRAINT pk_trials PRIMARY KEY
        CONSTRAINT fk_trials_tenant_id REFERENCES tenants ON DELETE CASCADE,
    sign_up_id uuid NOT NULL CONSTRAINT uq_trials_sign_up_id UNIQUE,
    organisation text NOT NULL,
    email text NOT NULL,
    state text NOT NULL DEFAULT 'running'
        CONSTRAINT ck_trials_state CHECK (state IN ('running', 'ended', 'converted')),
    ends_at timestamptz NOT NULL,
    purged_at timestamptz NOT NULL,
    most_endpoints int NOT NULL,
    most_authentications int NOT NULL,
    reminded int[] NOT NULL DEFAULT '{}',
    over_since timestamptz,
    created_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX ix_trials_open ON trials (ends_at) WHERE state <> 'converted';
GRANT SELECT, INSERT, UPDATE ON trials TO admit_app, admit_worker;
