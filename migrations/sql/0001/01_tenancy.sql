CREATE TABLE msps (
    id uuid CONSTRAINT pk_msps PRIMARY KEY DEFAULT gen_random_uuid(),
    slug text NOT NULL CONSTRAINT uq_msps_slug UNIQUE CONSTRAINT ck_msps_slug CHECK (slug ~ '^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$'),
    name text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE tenants (
    id uuid CONSTRAINT pk_tenants PRIMARY KEY DEFAULT gen_random_uuid(),
    number int NOT NULL GENERATED ALWAYS AS IDENTITY CONSTRAINT uq_tenants_number UNIQUE,
    msp_id uuid NOT NULL CONSTRAINT fk_tenants_msp_id REFERENCES msps,
    slug text NOT NULL CONSTRAINT uq_tenants_slug UNIQUE
        CONSTRAINT ck_tenants_slug CHECK (slug ~ '^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$'),
    name text NOT NULL,
    status text NOT NULL DEFAULT 'active' CONSTRAINT ck_tenants_status CHECK (status IN ('active', 'suspended', 'deleting')),
    default_site_id uuid,
    failure_limit int NOT NULL DEFAULT 200 CONSTRAINT ck_tenants_failure_limit CHECK (failure_limit > 0),
    failure_window_seconds int NOT NULL DEFAULT 60 CONSTRAINT ck_tenants_failure_window CHECK (failure_window_seconds BETWEEN 1 AND 3600),
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX ix_tenants_msp_id ON tenants (msp_id);

-- Tenants whose logs are still to be deleted, in batches. Written with the deletion of the tenant itself.
CREATE TABLE purged_tenants (
    tenant_id uuid CONSTRAINT pk_purged_tenants PRIMARY KEY,
    purged_at timestamptz NOT NULL DEFAULT now()
);
CREATE FUNCTION record_purged_tenant() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    INSERT INTO purged_tenants (tenant_id) VALUES (OLD.id);
    RETURN NULL;
END
$$;
CREATE TRIGGER purged AFTER DELETE ON tenants FOR EACH ROW EXECUTE FUNCTION record_purged_tenant();

CREATE TABLE audit_log (
    id bigint CONSTRAINT pk_audit_log PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    at timestamptz NOT NULL DEFAULT now(),
    actor text NOT NULL CONSTRAINT ck_audit_log_actor CHECK (actor <> ''),
    tenant_id uuid,
    msp_id uuid,
    action text NOT NULL CONSTRAINT ck_audit_log_action CHECK (action ~ '^[a-z-]+\.[a-z-]+$'),
    target text NOT NULL,
    before jsonb,
    after jsonb
);
CREATE INDEX ix_audit_log_tenant_id_id ON audit_log (tenant_id, id);
CREATE INDEX ix_audit_log_msp_id_id ON audit_log (msp_id, id);

CREATE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% is append-only', TG_TABLE_NAME USING ERRCODE = 'insufficient_privilege';
END
$$;
CREATE TRIGGER append_only BEFORE UPDATE OR DELETE ON audit_log FOR EACH ROW EXECUTE FUNCTION refuse_change();
CREATE TRIGGER append_only_all BEFORE TRUNCATE ON audit_log FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
