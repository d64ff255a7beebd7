CREATE TABLE audit_log (
    id bigint CONSTRAINT pk_audit_log PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    at timestamptz NOT NULL DEFAULT now(),
    actor text NOT NULL CONSTRAINT ck_audit_log_actor CHECK (actor <> ''),
    tenant_id uuid,
    msp_id uuid,
    action text NOT NULL CONSTRAINT ck_audit_log_action CHECK (action ~ '^[a-z-]+\.[a-z-]+$'),
    target text NOT NULL,
    before jsonb,
    after jsonb,
    -- Origin of the request.
    address inet,
    request_id text
);
CREATE INDEX ix_audit_log_tenant_id_id ON audit_log (tenant_id, id);
CREATE INDEX ix_audit_log_msp_id_id ON audit_log (msp_id, id);
-- Replays of feeds read in this order.
CREATE INDEX ix_audit_log_tenant_id_at_id ON audit_log (tenant_id, at, id);
-- Each index is in page order, so no plan needs a sort.
CREATE INDEX ix_audit_log_at_id ON audit_log (at, id);
CREATE INDEX ix_audit_log_msp_id_at_id ON audit_log (msp_id, at, id);
CREATE INDEX ix_audit_log_tenant_id_actor_at_id ON audit_log (tenant_id, actor, at, id);
CREATE INDEX ix_audit_log_tenant_id_action_at_id ON audit_log (tenant_id, action, at, id);
CREATE INDEX ix_audit_log_tenant_id_target_at_id ON audit_log (tenant_id, target, at, id);
CREATE INDEX ix_audit_log_request_id ON audit_log (request_id);
GRANT SELECT, INSERT ON audit_log TO admit_app, admit_worker;
GRANT INSERT ON audit_log TO admit_public;

-- Keys that sign the heads of chains. The newest key signs. All public keys are published.
CREATE TABLE audit_keys (
    id int CONSTRAINT pk_audit_keys PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    public_key bytea NOT NULL,
    private_sealed bytea NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now()
);
GRANT SELECT, INSERT ON audit_keys TO admit_worker;
GRANT SELECT (id, public_key, created_at) ON audit_keys TO admit_app;

-- A chain and its head. No foreign keys, because a chain outlives its owner.
CREATE TABLE audit_chains (
    id int CONSTRAINT pk_audit_chains PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    tenant_id uuid,
    msp_id uuid,
    position bigint NOT NULL,
    hash bytea NOT NULL,
    sealed_at timestamptz NOT NULL,
    key_id int NOT NULL CONSTRAINT fk_audit_chains_key_id REFERENCES audit_keys,
    signature bytea NOT NULL,
    -- The head differs from the signed head. Nothing is added until it matches again.
    broken boolean NOT NULL DEFAULT false,
    CONSTRAINT ck_audit_chains_owner CHECK (num_nonnulls(msp_id, tenant_id) <= 1),
    CONSTRAINT uq_audit_chains_tenant_id_msp_id UNIQUE NULLS NOT DISTINCT (tenant_id, msp_id)
);
GRANT SELECT ON audit_chains TO admit_app;
GRANT SELECT, INSERT, UPDATE ON audit_chains TO admit_worker;

CREATE TABLE audit_seals (
    chain_id int NOT NULL CONSTRAINT fk_audit_seals_chain_id REFERENCES audit_chains,
    position bigint NOT NULL,
    entry_id bigint NOT NULL CONSTRAINT uq_audit_seals_entry_id UNIQUE,
    -- SHA-256 of the previous hash and the entry's text (nac/core/audit/chain.py).
    hash bytea NOT NULL,
    CONSTRAINT pk_audit_seals PRIMARY KEY (chain_id, position)
);
GRANT SELECT ON audit_seals TO admit_app;
GRANT SELECT, INSERT ON audit_seals TO admit_worker;

-- Entries without a seal. A trigger inserts the row with the entry, so the worker sees it at
-- commit.
CREATE TABLE audit_unsealed (
    entry_id bigint CONSTRAINT pk_audit_unsealed PRIMARY KEY,
    -- The entry belongs to a broken chain.
    held boolean NOT NULL DEFAULT false
);
GRANT SELECT, DELETE ON audit_unsealed TO admit_worker;
GRANT UPDATE (held) ON audit_unsealed TO admit_worker;
