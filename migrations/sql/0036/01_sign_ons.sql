-- The OpenID Connect provider that an MSP or a tenant signs its people in by. What it says counts there and nowhere else.
CREATE TABLE sign_ons (
    id uuid CONSTRAINT pk_sign_ons PRIMARY KEY DEFAULT gen_random_uuid(),
    msp_id uuid CONSTRAINT fk_sign_ons_msp_id REFERENCES msps ON DELETE CASCADE,
    tenant_id uuid CONSTRAINT fk_sign_ons_tenant_id REFERENCES tenants ON DELETE CASCADE,
    -- As nac.sign_ons.settings reads it.
    settings jsonb NOT NULL,
    secret_sealed bytea NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT ck_sign_ons_owner CHECK (num_nonnulls(msp_id, tenant_id) = 1),
    CONSTRAINT uq_sign_ons_msp_id_tenant_id UNIQUE NULLS NOT DISTINCT (msp_id, tenant_id)
);
ALTER TABLE sign_ons ENABLE ROW LEVEL SECURITY;
CREATE POLICY owner_scope ON sign_ons TO admit_app
    USING (msp_id = scope_msp_id() OR tenant_id = scope_tenant_id())
    WITH CHECK (msp_id = scope_msp_id() OR tenant_id = scope_tenant_id());
CREATE POLICY credential_scope ON sign_ons FOR SELECT TO admit_app USING (id::text = scope_credential_id());

-- Who the provider's subjects are here. An address that the provider gives somebody else later is not that person.
CREATE TABLE sign_on_links (
    sign_on_id uuid NOT NULL CONSTRAINT fk_sign_on_links_sign_on_id REFERENCES sign_ons ON DELETE CASCADE,
    subject text NOT NULL,
    person_id uuid NOT NULL CONSTRAINT fk_sign_on_links_person_id REFERENCES people ON DELETE CASCADE,
    created_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT pk_sign_on_links PRIMARY KEY (sign_on_id, subject),
    CONSTRAINT uq_sign_on_links_sign_on_id_person_id UNIQUE (sign_on_id, person_id)
);
CREATE INDEX ix_sign_on_links_person_id ON sign_on_links (person_id);
ALTER TABLE sign_on_links ENABLE ROW LEVEL SECURITY;
CREATE POLICY owner_scope ON sign_on_links TO admit_app
    USING (sign_on_id IN (
        SELECT s.id FROM sign_ons s WHERE s.msp_id = scope_msp_id() OR s.tenant_id = scope_tenant_id()
    ))
    WITH CHECK (sign_on_id IN (
        SELECT s.id FROM sign_ons s WHERE s.msp_id = scope_msp_id() OR s.tenant_id = scope_tenant_id()
    ));
GRANT SELECT, INSERT, UPDATE, DELETE ON sign_ons, sign_on_links TO admit_app;

-- By whose provider: such a sign-in holds in the memberships of that owner alone, and ends with the provider.
ALTER TABLE sign_ins
    ADD COLUMN sign_on_id uuid CONSTRAINT fk_sign_ins_sign_on_id REFERENCES sign_ons ON DELETE CASCADE,
    ADD COLUMN via_msp_id uuid CONSTRAINT fk_sign_ins_via_msp_id REFERENCES msps ON DELETE CASCADE,
    ADD COLUMN via_tenant_id uuid CONSTRAINT fk_sign_ins_via_tenant_id REFERENCES tenants ON DELETE CASCADE,
    ADD CONSTRAINT ck_sign_ins_via CHECK (num_nonnulls(via_msp_id, via_tenant_id) = num_nonnulls(sign_on_id));
CREATE INDEX ix_sign_ins_sign_on_id ON sign_ins (sign_on_id) WHERE sign_on_id IS NOT NULL;
-- Whose provider it was sees and ends them; those of a person's own are the person's.
CREATE POLICY via_is_seen ON sign_ins FOR SELECT TO admit_app
    USING (via_msp_id = scope_msp_id() OR via_tenant_id = scope_tenant_id());
CREATE POLICY via_is_ended ON sign_ins FOR UPDATE TO admit_app
    USING (via_msp_id = scope_msp_id() OR via_tenant_id = scope_tenant_id());
CREATE INDEX ix_sign_ins_via_msp_id ON sign_ins (via_msp_id) WHERE via_msp_id IS NOT NULL;
CREATE INDEX ix_sign_ins_via_tenant_id ON sign_ins (via_tenant_id) WHERE via_tenant_id IS NOT NULL;
