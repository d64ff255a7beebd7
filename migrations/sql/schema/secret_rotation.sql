-- From the current secret of a slot or NAS to the next. Both are valid for a time.
CREATE TABLE secret_rotations (
    id uuid CONSTRAINT pk_secret_rotations PRIMARY KEY DEFAULT gen_random_uuid(),
    tenant_id uuid NOT NULL CONSTRAINT fk_secret_rotations_tenant_id REFERENCES tenants ON DELETE CASCADE,
    -- NULL: the tenant's secret.
    nas_id uuid,
    state text NOT NULL DEFAULT 'running'
        CONSTRAINT ck_secret_rotations_state CHECK (state IN ('running', 'finished', 'cancelled')),
    -- Sealed for "secret-rotation:<id>". NULL after the end.
    next_sealed bytea,
    -- finish: the old secret becomes invalid. wait: both stay valid until a person decides.
    at_end text NOT NULL DEFAULT 'finish'
        CONSTRAINT ck_secret_rotations_at_end CHECK (at_end IN ('finish', 'wait')),
    ends_at timestamptz NOT NULL,
    -- When radiusd started to accept both. The cell writes it.
    opened_at timestamptz,
    started_by text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    ended_by text NOT NULL DEFAULT '',
    ended_at timestamptz,
    CONSTRAINT fk_secret_rotations_nas FOREIGN KEY (tenant_id, nas_id)
        REFERENCES nases (tenant_id, id) ON DELETE CASCADE,
    CONSTRAINT ck_secret_rotations_over CHECK (state = 'running' OR next_sealed IS NULL)
);
CREATE UNIQUE INDEX ix_secret_rotations_running ON secret_rotations (tenant_id)
    WHERE state = 'running' AND nas_id IS NULL;
CREATE UNIQUE INDEX ix_secret_rotations_nas_running ON secret_rotations (nas_id) WHERE state = 'running';
CREATE INDEX ix_secret_rotations_tenant_id ON secret_rotations (tenant_id, created_at, id);
CREATE INDEX ix_secret_rotations_nas_id ON secret_rotations (nas_id) WHERE nas_id IS NOT NULL;
CREATE INDEX ix_secret_rotations_ends_at ON secret_rotations (ends_at) WHERE state = 'running';
GRANT SELECT, INSERT, UPDATE, DELETE ON secret_rotations TO admit_app, admit_worker;
GRANT SELECT ON secret_rotations TO admit_cell;
GRANT UPDATE (opened_at) ON secret_rotations TO admit_cell;

-- Which of the two secrets a NAS used, and when.
CREATE TABLE secret_sightings (
    rotation_id uuid NOT NULL
        CONSTRAINT fk_secret_sightings_rotation_id REFERENCES secret_rotations ON DELETE CASCADE,
    -- The id of a registered NAS, otherwise NAS-Identifier|address.
    nas_key text NOT NULL,
    tenant_id uuid NOT NULL CONSTRAINT fk_secret_sightings_tenant_id REFERENCES tenants ON DELETE CASCADE,
    nas_id uuid,
    -- Last source address.
    source inet,
    old_at timestamptz,
    new_at timestamptz,
    -- First use of the new secret.
    new_since timestamptz,
    CONSTRAINT pk_secret_sightings PRIMARY KEY (rotation_id, nas_key)
);
CREATE INDEX ix_secret_sightings_tenant_id ON secret_sightings (tenant_id);
GRANT SELECT, INSERT, UPDATE, DELETE ON secret_sightings TO admit_app, admit_worker;
GRANT SELECT, INSERT, UPDATE ON secret_sightings TO admit_cell;
