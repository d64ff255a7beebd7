-- Shared settings of an MSP's tenants.
CREATE TABLE templates (
    id uuid CONSTRAINT pk_templates PRIMARY KEY DEFAULT gen_random_uuid(),
    msp_id uuid NOT NULL CONSTRAINT fk_templates_msp_id REFERENCES msps ON DELETE CASCADE,
    slug text NOT NULL CONSTRAINT ck_templates_slug CHECK (slug ~ '^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$'),
    name text NOT NULL,
    -- Number of the newest version. 0 without versions.
    newest int NOT NULL DEFAULT 0,
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT uq_templates_msp_id_slug UNIQUE (msp_id, slug),
    CONSTRAINT uq_templates_msp_id_id UNIQUE (msp_id, id)
);
GRANT SELECT, INSERT, UPDATE, DELETE ON templates TO admit_app;

CREATE TABLE template_versions (
    template_id uuid NOT NULL,
    number int NOT NULL,
    msp_id uuid NOT NULL,
    -- Format: nac/onboarding/templates/document.py.
    document jsonb NOT NULL,
    comment text NOT NULL DEFAULT '',
    created_by text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT pk_template_versions PRIMARY KEY (template_id, number),
    CONSTRAINT fk_template_versions_msp_id_template_id FOREIGN KEY (msp_id, template_id)
        REFERENCES templates (msp_id, id) ON DELETE CASCADE
);
GRANT SELECT, INSERT, UPDATE, DELETE ON template_versions TO admit_app;

-- A tenant follows at most one template.
CREATE TABLE template_tenants (
    tenant_id uuid
        CONSTRAINT pk_template_tenants PRIMARY KEY
        CONSTRAINT fk_template_tenants_tenant_id REFERENCES tenants ON DELETE CASCADE,
    msp_id uuid NOT NULL,
    template_id uuid NOT NULL,
    -- The last applied version. NULL: none.
    version int,
    applied_at timestamptz,
    -- The tenant's own parts. Roll-outs do not change them, and they are no drift.
    overrides text[] NOT NULL DEFAULT '{}',
    CONSTRAINT fk_template_tenants_msp_id_template_id FOREIGN KEY (msp_id, template_id)
        REFERENCES templates (msp_id, id)
);
CREATE INDEX ix_template_tenants_template_id ON template_tenants (template_id);
GRANT SELECT, INSERT, UPDATE, DELETE ON template_tenants TO admit_app;

CREATE TABLE rollouts (
    id uuid CONSTRAINT pk_rollouts PRIMARY KEY DEFAULT gen_random_uuid(),
    msp_id uuid NOT NULL,
    template_id uuid NOT NULL,
    version int NOT NULL,
    state text NOT NULL DEFAULT 'running'
        CONSTRAINT ck_rollouts_state CHECK (
            state IN ('running', 'stopped', 'done', 'rolling-back', 'rolled-back')
        ),
    -- Minutes of observation for each stage.
    stages jsonb NOT NULL,
    -- Starts at 0.
    stage int NOT NULL DEFAULT 0,
    stage_applied_at timestamptz,
    -- Maximum change in the share of rejected devices.
    most_moved double precision NOT NULL,
    -- Why it stopped.
    detail text NOT NULL DEFAULT '',
    requested_by text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    ended_at timestamptz,
    -- The job that runs it. If the job ends first, the roll-out stops with the reason.
    job_id uuid,
    -- Roll back automatically if the share of rejected devices changes too much.
    back_when_moved boolean NOT NULL DEFAULT false,
    CONSTRAINT fk_rollouts_msp_id_template_id FOREIGN KEY (msp_id, template_id)
        REFERENCES templates (msp_id, id) ON DELETE CASCADE,
    CONSTRAINT uq_rollouts_msp_id_id UNIQUE (msp_id, id)
);
-- One running roll-out for each template.
CREATE UNIQUE INDEX uq_rollouts_template_id ON rollouts (template_id) WHERE state IN ('running', 'rolling-back');
CREATE INDEX ix_rollouts_template_id ON rollouts (template_id, created_at, id);
CREATE INDEX ix_rollouts_job_id ON rollouts (job_id);
GRANT SELECT, INSERT, UPDATE ON rollouts TO admit_app;

CREATE TABLE rollout_tenants (
    rollout_id uuid NOT NULL,
    tenant_id uuid NOT NULL CONSTRAINT fk_rollout_tenants_tenant_id REFERENCES tenants ON DELETE CASCADE,
    msp_id uuid NOT NULL,
    stage int NOT NULL,
    state text NOT NULL DEFAULT 'waiting'
        CONSTRAINT ck_rollout_tenants_state CHECK (
            state IN ('waiting', 'applied', 'failed', 'rolled-back', 'left-out')
        ),
    detail text NOT NULL DEFAULT '',
    applied_at timestamptz,
    -- Content of the changed parts and the version before the roll-out.
    before jsonb,
    before_version int,
    -- Rejected devices and all devices, before the change and after.
    rejected_before int,
    devices_before int,
    rejected_since int,
    devices_since int,
    CONSTRAINT pk_rollout_tenants PRIMARY KEY (rollout_id, tenant_id),
    CONSTRAINT fk_rollout_tenants_msp_id_rollout_id FOREIGN KEY (msp_id, rollout_id)
        REFERENCES rollouts (msp_id, id) ON DELETE CASCADE
);
CREATE INDEX ix_rollout_tenants_tenant_id ON rollout_tenants (tenant_id);
GRANT SELECT, INSERT, UPDATE ON rollout_tenants TO admit_app;
