-- By which heads of chains are signed. The one that was made last signs; the public keys of all are shown.
CREATE TABLE audit_keys (
    id int CONSTRAINT pk_audit_keys PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    public_key bytea NOT NULL,
    private_sealed bytea NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now()
);

-- A chain and its head. Without foreign keys, as the audit log itself: it outlives whose it is.
CREATE TABLE audit_chains (
    id int CONSTRAINT pk_audit_chains PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    tenant_id uuid,
    msp_id uuid,
    position bigint NOT NULL,
    hash bytea NOT NULL,
    sealed_at timestamptz NOT NULL,
    key_id int NOT NULL CONSTRAINT fk_audit_chains_key_id REFERENCES audit_keys,
    signature bytea NOT NULL,
    -- The head is not the one that was signed: nothing is added until it is again.
    broken boolean NOT NULL DEFAULT false,
    CONSTRAINT ck_audit_chains_owner CHECK (num_nonnulls(msp_id, tenant_id) <= 1),
    CONSTRAINT uq_audit_chains_tenant_id_msp_id UNIQUE NULLS NOT DISTINCT (tenant_id, msp_id)
);

CREATE TABLE audit_seals (
    chain_id int NOT NULL CONSTRAINT fk_audit_seals_chain_id REFERENCES audit_chains,
    position bigint NOT NULL,
    entry_id bigint NOT NULL CONSTRAINT uq_audit_seals_entry_id UNIQUE,
    -- SHA-256 of the hash before it and the entry's text (nac/audit/chain.py).
    hash bytea NOT NULL,
    CONSTRAINT pk_audit_seals PRIMARY KEY (chain_id, position)
);
CREATE TRIGGER append_only BEFORE UPDATE OR DELETE ON audit_seals FOR EACH ROW EXECUTE FUNCTION refuse_change();
CREATE TRIGGER append_only_all BEFORE TRUNCATE ON audit_seals FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- What waits to be sealed: written with the entry, so that it is found as soon as its transaction has ended.
CREATE TABLE audit_unsealed (
    entry_id bigint CONSTRAINT pk_audit_unsealed PRIMARY KEY,
    -- Of a broken chain.
    held boolean NOT NULL DEFAULT false
);
CREATE FUNCTION await_seal() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    INSERT INTO audit_unsealed (entry_id) SELECT a.id FROM added a;
    RETURN NULL;
END
$$;
CREATE TRIGGER await_seal AFTER INSERT ON audit_log REFERENCING NEW TABLE AS added
    FOR EACH STATEMENT EXECUTE FUNCTION await_seal();
INSERT INTO audit_unsealed (entry_id) SELECT id FROM audit_log;

ALTER TABLE audit_chains ENABLE ROW LEVEL SECURITY;
CREATE POLICY owner_scope ON audit_chains TO admit_app, admit_worker
    USING (tenant_id = scope_tenant_id() OR msp_id = scope_msp_id() OR scope_is_platform())
    WITH CHECK (scope_is_platform());
ALTER TABLE audit_seals ENABLE ROW LEVEL SECURITY;
CREATE POLICY owner_scope ON audit_seals TO admit_app, admit_worker
    USING (scope_is_platform() OR chain_id IN (SELECT c.id FROM audit_chains c)) WITH CHECK (scope_is_platform());
ALTER TABLE audit_unsealed ENABLE ROW LEVEL SECURITY;
CREATE POLICY platform_scope ON audit_unsealed TO admit_worker USING (scope_is_platform());
-- Public keys are for everybody; private ones are sealed, and not granted to who shows them.
ALTER TABLE audit_keys ENABLE ROW LEVEL SECURITY;
CREATE POLICY everybody ON audit_keys FOR SELECT TO admit_app, admit_worker USING (true);
CREATE POLICY platform_scope ON audit_keys FOR INSERT TO admit_worker WITH CHECK (scope_is_platform());

GRANT SELECT ON audit_chains, audit_seals TO admit_app, admit_worker;
GRANT INSERT, UPDATE ON audit_chains TO admit_worker;
GRANT INSERT ON audit_seals TO admit_worker;
GRANT SELECT, DELETE ON audit_unsealed TO admit_worker;
GRANT UPDATE (held) ON audit_unsealed TO admit_worker;
GRANT SELECT (id, public_key, created_at) ON audit_keys TO admit_app;
GRANT SELECT, INSERT ON audit_keys TO admit_worker;
