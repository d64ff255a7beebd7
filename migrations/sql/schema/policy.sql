-- References between rows of tenants include the tenant. PostgreSQL checks foreign keys without
-- row-level security, so a plain reference could name another tenant's row.
CREATE TABLE policies (
    id uuid CONSTRAINT pk_policies PRIMARY KEY DEFAULT gen_random_uuid(),
    tenant_id uuid NOT NULL CONSTRAINT fk_policies_tenant_id REFERENCES tenants ON DELETE CASCADE,
    slug text NOT NULL CONSTRAINT ck_policies_slug CHECK (slug ~ '^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$'),
    name text NOT NULL,
    published_version int,
    CONSTRAINT uq_policies_tenant_id_slug UNIQUE (tenant_id, slug),
    CONSTRAINT uq_policies_tenant_id_id UNIQUE (tenant_id, id)
);
GRANT SELECT, INSERT, UPDATE, DELETE ON policies TO admit_app, admit_worker;
GRANT SELECT ON policies TO admit_cell;

CREATE TABLE policy_versions (
    id uuid CONSTRAINT pk_policy_versions PRIMARY KEY DEFAULT gen_random_uuid(),
    tenant_id uuid NOT NULL CONSTRAINT fk_policy_versions_tenant_id REFERENCES tenants ON DELETE CASCADE,
    policy_id uuid NOT NULL,
    number int NOT NULL CONSTRAINT ck_policy_versions_number CHECK (number > 0),
    document jsonb NOT NULL,
    status text NOT NULL DEFAULT 'draft'
        CONSTRAINT ck_policy_versions_status CHECK (status IN ('draft', 'published', 'superseded')),
    created_at timestamptz NOT NULL DEFAULT now(),
    published_at timestamptz,
    comment text NOT NULL DEFAULT '',
    -- The document as text, because jsonb keeps neither key order nor blanks. NULL for a
    -- document that was an object.
    written text,
    -- Result of the replay before publication, and the person who acknowledged it. NULL
    -- without a replay.
    replayed jsonb,
    CONSTRAINT uq_policy_versions_policy_id_number UNIQUE (policy_id, number),
    CONSTRAINT fk_policy_versions_tenant_id_policy_id FOREIGN KEY (tenant_id, policy_id)
        REFERENCES policies (tenant_id, id) ON DELETE CASCADE,
    CONSTRAINT ck_policy_versions_replayed CHECK (jsonb_typeof(replayed) IN ('object', 'null'))
);
GRANT SELECT, INSERT, UPDATE, DELETE ON policy_versions TO admit_app, admit_worker;
GRANT SELECT ON policy_versions TO admit_cell;

-- Decisions per rule, version and UTC day. The empty rule is the fallback. Shippers write them
-- with auth_log, so there are no foreign keys.
CREATE TABLE policy_hits (
    tenant_id uuid NOT NULL,
    policy_id uuid NOT NULL,
    version int NOT NULL,
    rule_id text NOT NULL,
    day date NOT NULL,
    hits bigint NOT NULL,
    last_at timestamptz NOT NULL,
    CONSTRAINT pk_policy_hits PRIMARY KEY (tenant_id, policy_id, version, rule_id, day)
) WITH (fillfactor = 70);
GRANT SELECT, DELETE ON policy_hits TO admit_app, admit_worker;
GRANT SELECT, INSERT ON policy_hits TO admit_cell;
-- Not the tenant of a row.
GRANT UPDATE (hits, last_at) ON policy_hits TO admit_cell;
