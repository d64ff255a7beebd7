-- How the status of what an external authority issued is learnt, and what the last attempt gave.
CREATE TABLE status_sources (
    tenant_id uuid NOT NULL CONSTRAINT fk_status_sources_tenant_id REFERENCES tenants ON DELETE CASCADE,
    authority_id uuid NOT NULL,
    -- Of the administrator; '' to go by what the certificates say.
    crl_url text NOT NULL DEFAULT '',
    ocsp_url text NOT NULL DEFAULT '',
    -- Of the list in force (RFC 5280 5.2.3), decimal: up to 20 octets.
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

-- Certificates of external authorities that devices have shown. Written by shippers, so without foreign keys.
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

-- What external authorities say of single certificates; cells mirror it.
CREATE TABLE external_statuses (
    tenant_id uuid NOT NULL CONSTRAINT fk_external_statuses_tenant_id REFERENCES tenants ON DELETE CASCADE,
    authority_id uuid NOT NULL,
    serial bytea NOT NULL CONSTRAINT ck_external_statuses_serial CHECK (length(serial) BETWEEN 1 AND 20),
    -- On the authority's list of revoked certificates.
    listed boolean NOT NULL DEFAULT false,
    -- By OCSP: '' where it was never asked.
    answer text NOT NULL DEFAULT '' CONSTRAINT ck_external_statuses_answer CHECK (answer IN ('', 'good', 'revoked')),
    -- Until when the answer is fresh.
    until timestamptz,
    CONSTRAINT pk_external_statuses PRIMARY KEY (authority_id, serial),
    CONSTRAINT fk_external_statuses_tenant_id_authority_id FOREIGN KEY (tenant_id, authority_id)
        REFERENCES certificate_authorities (tenant_id, id) ON DELETE CASCADE
);
CREATE INDEX ix_external_statuses_tenant_id ON external_statuses (tenant_id);

-- A list of 100,000 serials arrives in one statement: so do its changes.
CREATE FUNCTION record_external_statuses() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    INSERT INTO replica_changes (tenant_id, noun, key)
    SELECT tenant_id, 'external-status', authority_id || ':' || encode(serial, 'hex') FROM changed;
    PERFORM pg_notify('replica_changes', '');
    RETURN NULL;
END
$$;
REVOKE EXECUTE ON FUNCTION record_external_statuses() FROM PUBLIC;
CREATE TRIGGER replica_insert AFTER INSERT ON external_statuses REFERENCING NEW TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION record_external_statuses();
CREATE TRIGGER replica_update AFTER UPDATE ON external_statuses REFERENCING NEW TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION record_external_statuses();
CREATE TRIGGER replica_delete AFTER DELETE ON external_statuses REFERENCING OLD TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION record_external_statuses();
-- Until when the list holds is part of the authority's record.
CREATE TRIGGER replica_change AFTER INSERT OR DELETE ON status_sources
    FOR EACH ROW EXECUTE FUNCTION record_replica_change('authority', 'authority_id');
CREATE TRIGGER replica_update AFTER UPDATE ON status_sources
    FOR EACH ROW WHEN (OLD.crl_next_update IS DISTINCT FROM NEW.crl_next_update)
    EXECUTE FUNCTION record_replica_change('authority', 'authority_id');

-- Which tenants have something to be asked about: the worker acts in the scope of one at a time.
CREATE FUNCTION tenants_with_external_authorities() RETURNS SETOF uuid
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
    SELECT DISTINCT tenant_id FROM status_sources
$$;
REVOKE EXECUTE ON FUNCTION tenants_with_external_authorities() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION tenants_with_external_authorities() TO admit_worker;

CREATE POLICY cell_scope ON status_sources FOR SELECT TO admit_cell
    USING (tenant_id IN (SELECT s.tenant_id FROM slots s WHERE s.cell_id = scope_cell_id()));
CREATE POLICY cell_scope ON external_statuses FOR SELECT TO admit_cell
    USING (tenant_id IN (SELECT s.tenant_id FROM slots s WHERE s.cell_id = scope_cell_id()));
CREATE POLICY cell_scope ON external_certificates TO admit_cell
    USING (tenant_id IN (SELECT s.tenant_id FROM slots s WHERE s.cell_id = scope_cell_id()))
    WITH CHECK (tenant_id IN (SELECT s.tenant_id FROM slots s WHERE s.cell_id = scope_cell_id()));
GRANT SELECT, INSERT, UPDATE, DELETE ON status_sources, external_certificates, external_statuses TO admit_app, admit_worker;
GRANT SELECT ON status_sources, external_statuses TO admit_cell;
GRANT SELECT, INSERT ON external_certificates TO admit_cell;
GRANT UPDATE (last_seen_at) ON external_certificates TO admit_cell;
