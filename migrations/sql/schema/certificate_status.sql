-- The current list of each authority.
CREATE TABLE revocation_lists (
    authority_id uuid CONSTRAINT pk_revocation_lists PRIMARY KEY,
    tenant_id uuid NOT NULL CONSTRAINT fk_revocation_lists_tenant_id REFERENCES tenants ON DELETE CASCADE,
    -- Stored before the list is signed. It never decreases (RFC 5280 5.2.3).
    number bigint NOT NULL DEFAULT 0,
    crl_der bytea,
    this_update timestamptz,
    next_update timestamptz,
    -- Time of the last scheduled list. An entry leaves after one scheduled list beyond its
    -- validity (RFC 5280 3.3).
    scheduled_at timestamptz,
    -- Earliest time of the next attempt after a failure.
    retry_at timestamptz,
    -- The last number taken, even if its list was not published.
    reserved_number bigint NOT NULL DEFAULT 0,
    CONSTRAINT fk_revocation_lists_tenant_id_authority_id FOREIGN KEY (tenant_id, authority_id)
        REFERENCES certificate_authorities (tenant_id, id) ON DELETE CASCADE
);
CREATE INDEX ix_revocation_lists_tenant_id ON revocation_lists (tenant_id);
GRANT SELECT, INSERT, UPDATE, DELETE ON revocation_lists TO admit_app, admit_worker;
GRANT SELECT ON revocation_lists TO admit_public;

-- Authorities that need a new list. Rows are only appended, so revocations never wait for each
-- other.
CREATE TABLE revocation_work (
    id bigint CONSTRAINT pk_revocation_work PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    tenant_id uuid NOT NULL CONSTRAINT fk_revocation_work_tenant_id REFERENCES tenants ON DELETE CASCADE,
    authority_id uuid NOT NULL
);
CREATE INDEX ix_revocation_work_authority_id ON revocation_work (authority_id);
CREATE INDEX ix_revocation_work_tenant_id ON revocation_work (tenant_id);
GRANT SELECT, INSERT, DELETE ON revocation_work TO admit_app, admit_worker;

-- Delegated OCSP responders of authorities (RFC 6960 2.6).
CREATE TABLE ocsp_signers (
    id uuid CONSTRAINT pk_ocsp_signers PRIMARY KEY DEFAULT gen_random_uuid(),
    tenant_id uuid NOT NULL CONSTRAINT fk_ocsp_signers_tenant_id REFERENCES tenants ON DELETE CASCADE,
    authority_id uuid NOT NULL,
    serial bytea NOT NULL,
    -- NULL until signed.
    certificate_der bytea,
    key_sealed bytea NOT NULL,
    not_before timestamptz NOT NULL,
    not_after timestamptz NOT NULL,
    CONSTRAINT fk_ocsp_signers_tenant_id_authority_id FOREIGN KEY (tenant_id, authority_id)
        REFERENCES certificate_authorities (tenant_id, id) ON DELETE CASCADE
);
CREATE INDEX ix_ocsp_signers_authority_id_not_after ON ocsp_signers (authority_id, not_after);
CREATE INDEX ix_ocsp_signers_tenant_id ON ocsp_signers (tenant_id);
GRANT SELECT, INSERT, UPDATE, DELETE ON ocsp_signers TO admit_app, admit_worker;
GRANT SELECT ON ocsp_signers TO admit_public;
