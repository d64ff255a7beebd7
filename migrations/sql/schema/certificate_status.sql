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

-- Sources of certificate status for an external authority, and the result of the last attempt.
CREATE TABLE status_sources (
    tenant_id uuid NOT NULL CONSTRAINT fk_status_sources_tenant_id REFERENCES tenants ON DELETE CASCADE,
    authority_id uuid NOT NULL,
    -- Set by the administrator. Empty: use the URLs in the certificates.
    crl_url text NOT NULL DEFAULT '',
    ocsp_url text NOT NULL DEFAULT '',
    -- Of the current list (RFC 5280 5.2.3), as a decimal number of up to 20 octets.
    crl_number numeric,
    crl_this_update timestamptz,
    crl_next_update timestamptz,
    crl_checked_at timestamptz,
    crl_due_at timestamptz NOT NULL DEFAULT now(),
    crl_failure text NOT NULL DEFAULT '',
    CONSTRAINT pk_status_sources PRIMARY KEY (authority_id),
    CONSTRAINT fk_status_sources_tenant_id_authority_id FOREIGN KEY (tenant_id, authority_id)
        REFERENCES certificate_authorities (tenant_id, id) ON DELETE CASCADE
);
GRANT SELECT, INSERT, UPDATE, DELETE ON status_sources TO admit_app, admit_worker;
GRANT SELECT ON status_sources TO admit_cell;

-- Certificates of external authorities that devices have presented. Shippers write them, so
-- there are no foreign keys.
CREATE TABLE external_certificates (
    tenant_id uuid NOT NULL,
    authority_id uuid NOT NULL,
    serial bytea NOT NULL CONSTRAINT ck_external_certificates_serial CHECK (length(serial) BETWEEN 1 AND 20),
    common_name text NOT NULL DEFAULT '',
    crl_urls text[] NOT NULL DEFAULT '{}',
    ocsp_urls text[] NOT NULL DEFAULT '{}',
    not_after timestamptz NOT NULL,
    first_seen_at timestamptz NOT NULL,
    last_seen_at timestamptz NOT NULL,
    ocsp_this_update timestamptz,
    ocsp_checked_at timestamptz,
    ocsp_due_at timestamptz NOT NULL DEFAULT now(),
    ocsp_failure text NOT NULL DEFAULT '',
    CONSTRAINT pk_external_certificates PRIMARY KEY (authority_id, serial)
);
CREATE INDEX ix_external_certificates_tenant_id_ocsp_due_at ON external_certificates (tenant_id, ocsp_due_at);
GRANT SELECT, INSERT, UPDATE, DELETE ON external_certificates TO admit_app, admit_worker;
GRANT SELECT, INSERT ON external_certificates TO admit_cell;
GRANT UPDATE (last_seen_at) ON external_certificates TO admit_cell;

-- Status of single certificates from external authorities. Cells mirror it.
CREATE TABLE external_statuses (
    tenant_id uuid NOT NULL CONSTRAINT fk_external_statuses_tenant_id REFERENCES tenants ON DELETE CASCADE,
    authority_id uuid NOT NULL,
    serial bytea NOT NULL CONSTRAINT ck_external_statuses_serial CHECK (length(serial) BETWEEN 1 AND 20),
    -- The certificate is on the authority's revocation list.
    listed boolean NOT NULL DEFAULT false,
    -- The OCSP status. Empty if never requested.
    answer text NOT NULL DEFAULT ''
        CONSTRAINT ck_external_statuses_answer CHECK (answer IN ('', 'good', 'revoked')),
    -- End of the OCSP response's validity.
    until timestamptz,
    CONSTRAINT pk_external_statuses PRIMARY KEY (authority_id, serial),
    CONSTRAINT fk_external_statuses_tenant_id_authority_id FOREIGN KEY (tenant_id, authority_id)
        REFERENCES certificate_authorities (tenant_id, id) ON DELETE CASCADE
);
CREATE INDEX ix_external_statuses_tenant_id ON external_statuses (tenant_id);
GRANT SELECT, INSERT, UPDATE, DELETE ON external_statuses TO admit_app, admit_worker;
GRANT SELECT ON external_statuses TO admit_cell;
