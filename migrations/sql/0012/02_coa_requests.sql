-- Sessions that must end because what admitted them is no longer good. Who sends the Disconnect-Request (RFC 5176) takes
-- the rows in the order of their ids and moves their state on.
CREATE TABLE coa_requests (
    id bigint CONSTRAINT pk_coa_requests PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    tenant_id uuid NOT NULL CONSTRAINT fk_coa_requests_tenant_id REFERENCES tenants ON DELETE CASCADE,
    session_row bigint NOT NULL,
    session_id text NOT NULL,
    nas_id uuid,
    nas_address inet,
    mac macaddr,
    reason text NOT NULL,
    certificate_serial text NOT NULL DEFAULT '',
    state text NOT NULL DEFAULT 'queued' CONSTRAINT ck_coa_requests_state CHECK (state IN ('queued', 'done', 'failed')),
    created_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX ix_coa_requests_tenant_id_id ON coa_requests (tenant_id, id);
-- A session is asked to end once at a time.
CREATE UNIQUE INDEX uq_coa_requests_queued ON coa_requests (tenant_id, session_row) WHERE state = 'queued';

ALTER TABLE coa_requests ENABLE ROW LEVEL SECURITY;
CREATE POLICY tenant_scope ON coa_requests TO admit_app, admit_worker
    USING (tenant_id = scope_tenant_id()) WITH CHECK (tenant_id = scope_tenant_id());
CREATE POLICY cell_scope ON coa_requests FOR SELECT TO admit_cell
    USING (tenant_id IN (SELECT s.tenant_id FROM slots s WHERE s.cell_id = scope_cell_id()));
GRANT SELECT, INSERT, UPDATE, DELETE ON coa_requests TO admit_app, admit_worker;
GRANT SELECT ON coa_requests TO admit_cell;

-- Which devices used a certificate.
CREATE INDEX ix_auth_log_tenant_id_certificate_serial_at ON auth_log (tenant_id, certificate_serial, at DESC)
    WHERE certificate_serial <> '';
