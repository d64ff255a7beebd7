-- What tenants of an MSP have in common.
CREATE TABLE templates (
    id uuid CONSTRAINT pk_templates PRIMARY KEY DEFAULT gen_random_uuid(),
    msp_id uuid NOT NULL CONSTRAINT fk_templates_msp_id REFERENCES msps ON DELETE CASCADE,
    slug text NOT NULL CONSTRAINT ck_templates_slug CHECK (slug ~ '^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$'),
    name text NOT NULL,
    -- Of the newest version; 0 where there is none.
    newest int NOT NULL DEFAULT 0,
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT uq_templates_msp_id_slug UNIQUE (msp_id, slug),
    CONSTRAINT uq_templates_msp_id_id UNIQUE (msp_id, id)
);

CREATE TABLE template_versions (
    template_id uuid NOT NULL,
    number int NOT NULL,
    msp_id uuid NOT NULL,
    -- As nac/templates/document.py reads it.
    document jsonb NOT NULL,
    comment text NOT NULL DEFAULT '',
    created_by text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT pk_template_versions PRIMARY KEY (template_id, number),
    CONSTRAINT fk_template_versions_msp_id_template_id FOREIGN KEY (msp_id, template_id)
        REFERENCES templates (msp_id, id) ON DELETE CASCADE
);

-- A tenant follows one template at most.
CREATE TABLE template_tenants (
    tenant_id uuid CONSTRAINT pk_template_tenants PRIMARY KEY
        CONSTRAINT fk_template_tenants_tenant_id REFERENCES tenants ON DELETE CASCADE,
    msp_id uuid NOT NULL,
    template_id uuid NOT NULL,
    -- That was brought to it last; NULL: none yet.
    version int,
    applied_at timestamptz,
    -- Parts that are the tenant's own: no roll-out changes them, and they are no drift.
    overrides text[] NOT NULL DEFAULT '{}',
    CONSTRAINT fk_template_tenants_msp_id_template_id FOREIGN KEY (msp_id, template_id) REFERENCES templates (msp_id, id)
);
CREATE INDEX ix_template_tenants_template_id ON template_tenants (template_id);

CREATE TABLE rollouts (
    id uuid CONSTRAINT pk_rollouts PRIMARY KEY DEFAULT gen_random_uuid(),
    msp_id uuid NOT NULL,
    template_id uuid NOT NULL,
    version int NOT NULL,
    state text NOT NULL DEFAULT 'running'
        CONSTRAINT ck_rollouts_state CHECK (state IN ('running', 'stopped', 'done', 'rolling-back', 'rolled-back')),
    -- Minutes that each stage is watched for, before the next.
    stages jsonb NOT NULL,
    -- From 0.
    stage int NOT NULL DEFAULT 0,
    stage_applied_at timestamptz,
    -- A share of devices rejected may move by so much.
    most_moved double precision NOT NULL,
    -- Why it stopped.
    detail text NOT NULL DEFAULT '',
    asked_by text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    ended_at timestamptz,
    CONSTRAINT fk_rollouts_msp_id_template_id FOREIGN KEY (msp_id, template_id)
        REFERENCES templates (msp_id, id) ON DELETE CASCADE,
    CONSTRAINT uq_rollouts_msp_id_id UNIQUE (msp_id, id)
);
-- One at a time of a template.
CREATE UNIQUE INDEX uq_rollouts_template_id ON rollouts (template_id) WHERE state IN ('running', 'rolling-back');
CREATE INDEX ix_rollouts_template_id ON rollouts (template_id, created_at, id);

CREATE TABLE rollout_tenants (
    rollout_id uuid NOT NULL,
    tenant_id uuid NOT NULL CONSTRAINT fk_rollout_tenants_tenant_id REFERENCES tenants ON DELETE CASCADE,
    msp_id uuid NOT NULL,
    stage int NOT NULL,
    state text NOT NULL DEFAULT 'waiting'
        CONSTRAINT ck_rollout_tenants_state CHECK (state IN ('waiting', 'applied', 'failed', 'rolled-back')),
    detail text NOT NULL DEFAULT '',
    applied_at timestamptz,
    -- What it had in the parts that were changed, and which version it followed.
    before jsonb,
    before_version int,
    -- Devices that were rejected and all that were heard, in the time before and since.
    rejected_before int,
    devices_before int,
    rejected_since int,
    devices_since int,
    CONSTRAINT pk_rollout_tenants PRIMARY KEY (rollout_id, tenant_id),
    CONSTRAINT fk_rollout_tenants_msp_id_rollout_id FOREIGN KEY (msp_id, rollout_id)
        REFERENCES rollouts (msp_id, id) ON DELETE CASCADE
);
CREATE INDEX ix_rollout_tenants_tenant_id ON rollout_tenants (tenant_id);

ALTER TABLE templates ENABLE ROW LEVEL SECURITY;
ALTER TABLE template_versions ENABLE ROW LEVEL SECURITY;
ALTER TABLE template_tenants ENABLE ROW LEVEL SECURITY;
ALTER TABLE rollouts ENABLE ROW LEVEL SECURITY;
ALTER TABLE rollout_tenants ENABLE ROW LEVEL SECURITY;
CREATE POLICY msp_scope ON templates TO admit_app USING (msp_id = scope_msp_id()) WITH CHECK (msp_id = scope_msp_id());
CREATE POLICY msp_scope ON template_versions TO admit_app
    USING (msp_id = scope_msp_id()) WITH CHECK (msp_id = scope_msp_id());
CREATE POLICY msp_scope ON rollouts TO admit_app USING (msp_id = scope_msp_id()) WITH CHECK (msp_id = scope_msp_id());
-- Of the MSP's own tenants.
CREATE POLICY msp_scope ON template_tenants TO admit_app USING (msp_id = scope_msp_id())
    WITH CHECK (msp_id = scope_msp_id() AND tenant_id IN (SELECT t.id FROM tenants t WHERE t.msp_id = scope_msp_id()));
CREATE POLICY msp_scope ON rollout_tenants TO admit_app USING (msp_id = scope_msp_id())
    WITH CHECK (msp_id = scope_msp_id() AND tenant_id IN (SELECT t.id FROM tenants t WHERE t.msp_id = scope_msp_id()));
GRANT SELECT, INSERT, UPDATE, DELETE ON templates, template_versions, template_tenants TO admit_app;
GRANT SELECT, INSERT, UPDATE ON rollouts, rollout_tenants TO admit_app;
