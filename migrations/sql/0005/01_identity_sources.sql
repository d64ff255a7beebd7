-- Directories and providers that know users of a tenant.
CREATE TABLE identity_sources (
    id uuid CONSTRAINT pk_identity_sources PRIMARY KEY DEFAULT gen_random_uuid(),
    tenant_id uuid NOT NULL CONSTRAINT fk_identity_sources_tenant_id REFERENCES tenants ON DELETE CASCADE,
    name text NOT NULL CONSTRAINT ck_identity_sources_name CHECK (name ~ '^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$'),
    kind text NOT NULL CONSTRAINT ck_identity_sources_kind CHECK (kind IN ('ldap', 'oidc')),
    position int NOT NULL DEFAULT 100 CONSTRAINT ck_identity_sources_position CHECK (position BETWEEN 1 AND 1000),
    enabled boolean NOT NULL DEFAULT true,
    settings jsonb NOT NULL,
    secret_sealed bytea,
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT uq_identity_sources_tenant_id_name UNIQUE (tenant_id, name)
);

CREATE TRIGGER replica_change AFTER INSERT OR DELETE ON identity_sources
    FOR EACH ROW EXECUTE FUNCTION record_replica_change('identity-source', 'id');
CREATE TRIGGER replica_update AFTER UPDATE ON identity_sources
    FOR EACH ROW WHEN (OLD.* IS DISTINCT FROM NEW.*) EXECUTE FUNCTION record_replica_change('identity-source', 'id');

ALTER TABLE identity_sources ENABLE ROW LEVEL SECURITY;
CREATE POLICY tenant_scope ON identity_sources TO admit_app, admit_worker
    USING (tenant_id = scope_tenant_id()) WITH CHECK (tenant_id = scope_tenant_id());
CREATE POLICY cell_scope ON identity_sources FOR SELECT TO admit_cell
    USING (tenant_id IN (SELECT s.tenant_id FROM slots s WHERE s.cell_id = scope_cell_id()));

GRANT SELECT, INSERT, UPDATE, DELETE ON identity_sources TO admit_app, admit_worker;
GRANT SELECT ON identity_sources TO admit_cell;
