-- Directories and providers that authenticate a tenant's users.
CREATE TABLE identity_sources (
    id uuid CONSTRAINT pk_identity_sources PRIMARY KEY DEFAULT gen_random_uuid(),
    tenant_id uuid NOT NULL CONSTRAINT fk_identity_sources_tenant_id REFERENCES tenants ON DELETE CASCADE,
    name text NOT NULL
        CONSTRAINT ck_identity_sources_name CHECK (name ~ '^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$'),
    kind text NOT NULL CONSTRAINT ck_identity_sources_kind CHECK (kind IN ('ldap', 'oidc')),
    position int NOT NULL DEFAULT 100
        CONSTRAINT ck_identity_sources_position CHECK (position BETWEEN 1 AND 1000),
    enabled boolean NOT NULL DEFAULT true,
    settings jsonb NOT NULL,
    secret_sealed bytea,
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT uq_identity_sources_tenant_id_name UNIQUE (tenant_id, name),
    CONSTRAINT ck_identity_sources_settings CHECK (jsonb_typeof(settings) = 'object')
);
GRANT SELECT, INSERT, UPDATE, DELETE ON identity_sources TO admit_app, admit_worker;
GRANT SELECT ON identity_sources TO admit_cell;
