-- The OpenID Connect provider of an MSP or a tenant. It authenticates people for this owner
-- only.
CREATE TABLE sign_ons (
    id uuid CONSTRAINT pk_sign_ons PRIMARY KEY DEFAULT gen_random_uuid(),
    msp_id uuid CONSTRAINT fk_sign_ons_msp_id REFERENCES msps ON DELETE CASCADE,
    tenant_id uuid CONSTRAINT fk_sign_ons_tenant_id REFERENCES tenants ON DELETE CASCADE,
    -- Format: nac.accounts.sign_ons.settings.
    settings jsonb NOT NULL,
    secret_sealed bytea NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT ck_sign_ons_owner CHECK (num_nonnulls(msp_id, tenant_id) = 1),
    CONSTRAINT uq_sign_ons_msp_id_tenant_id UNIQUE NULLS NOT DISTINCT (msp_id, tenant_id)
);
ALTER TABLE sign_ins ADD CONSTRAINT fk_sign_ins_sign_on_id
    FOREIGN KEY (sign_on_id) REFERENCES sign_ons ON DELETE CASCADE;
GRANT SELECT, INSERT, UPDATE, DELETE ON sign_ons TO admit_app;
GRANT SELECT (id, msp_id, tenant_id, settings) ON sign_ons TO admit_worker;

-- The person behind each subject of a provider. If the provider reassigns an email address, the
-- new subject is a different person.
CREATE TABLE sign_on_links (
    sign_on_id uuid NOT NULL CONSTRAINT fk_sign_on_links_sign_on_id REFERENCES sign_ons ON DELETE CASCADE,
    subject text NOT NULL,
    person_id uuid NOT NULL CONSTRAINT fk_sign_on_links_person_id REFERENCES people ON DELETE CASCADE,
    created_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT pk_sign_on_links PRIMARY KEY (sign_on_id, subject),
    CONSTRAINT uq_sign_on_links_sign_on_id_person_id UNIQUE (sign_on_id, person_id)
);
CREATE INDEX ix_sign_on_links_person_id ON sign_on_links (person_id);
GRANT SELECT, INSERT, UPDATE, DELETE ON sign_on_links TO admit_app;
