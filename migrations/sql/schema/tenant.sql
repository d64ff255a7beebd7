CREATE TABLE msps (
    id uuid CONSTRAINT pk_msps PRIMARY KEY DEFAULT gen_random_uuid(),
    slug text NOT NULL
        CONSTRAINT uq_msps_slug UNIQUE
        CONSTRAINT ck_msps_slug CHECK (slug ~ '^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$'),
    name text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    -- How long a deleted tenant can be restored.
    deletion_days int NOT NULL DEFAULT 30
        CONSTRAINT ck_msps_deletion_days CHECK (deletion_days BETWEEN 1 AND 365),
    -- While an MSP is suspended, its grants to people and programs have no effect.
    status text NOT NULL DEFAULT 'active' CONSTRAINT ck_msps_status CHECK (status IN ('active', 'suspended'))
);
GRANT SELECT, INSERT, UPDATE, DELETE ON msps TO admit_app, admit_worker;

CREATE TABLE tenants (
    id uuid CONSTRAINT pk_tenants PRIMARY KEY DEFAULT gen_random_uuid(),
    number int NOT NULL GENERATED ALWAYS AS IDENTITY CONSTRAINT uq_tenants_number UNIQUE,
    msp_id uuid NOT NULL CONSTRAINT fk_tenants_msp_id REFERENCES msps,
    slug text NOT NULL
        CONSTRAINT uq_tenants_slug UNIQUE
        CONSTRAINT ck_tenants_slug CHECK (slug ~ '^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$'),
    name text NOT NULL,
    status text NOT NULL DEFAULT 'active'
        CONSTRAINT ck_tenants_status CHECK (status IN ('active', 'suspended', 'deleting')),
    default_site_id uuid,
    failure_limit int NOT NULL DEFAULT 200 CONSTRAINT ck_tenants_failure_limit CHECK (failure_limit > 0),
    failure_window_seconds int NOT NULL DEFAULT 60
        CONSTRAINT ck_tenants_failure_window CHECK (failure_window_seconds BETWEEN 1 AND 3600),
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now(),
    -- Publication replays the requests of this many days, and rejects differences without
    -- acknowledgement. NULL: no replay.
    replay_days int CONSTRAINT ck_tenants_replay_days CHECK (replay_days BETWEEN 1 AND 90),
    -- Methods that the tenant offers. nac/cellformat/methods.py explains why one is off by default.
    methods text[] NOT NULL DEFAULT '{mab,eap-tls,eap-ttls-pap,eap-ttls-mschapv2,pap,chap,mschapv2}'
        CONSTRAINT ck_tenants_methods CHECK (
            cardinality(methods) > 0
            AND array_position(methods, NULL) IS NULL
            AND methods <@ '{mab,eap-tls,eap-ttls-pap,eap-ttls-mschapv2,peap-mschapv2,pap,chap,mschapv2}'
        ),
    tls_versions text[] NOT NULL DEFAULT '{1.2,1.3}'
        CONSTRAINT ck_tenants_tls_versions CHECK (
            cardinality(tls_versions) > 0
            AND array_position(tls_versions, NULL) IS NULL
            AND tls_versions <@ '{1.2,1.3}'
        ),
    -- Whether a renewed certificate can keep its key.
    renewal_keeps_key boolean NOT NULL DEFAULT false,
    -- Stays true, because radiusd may still have a removed authority in memory.
    trusts_external boolean NOT NULL DEFAULT false,
    -- Grows when radiusd must restart to change its trust. OpenSSL never forgets an
    -- authority, and ignores a second one with the same name.
    trust_generation int NOT NULL DEFAULT 0,
    status_failure text NOT NULL DEFAULT 'soft'
        CONSTRAINT ck_tenants_status_failure CHECK (status_failure IN ('soft', 'hard')),
    -- Key of Chargeable-User-Identities (RFC 4372).
    cui_key uuid NOT NULL DEFAULT gen_random_uuid(),
    -- Session-Timeout at NASes behind NAT. 0: none.
    nat_session_seconds int NOT NULL DEFAULT 0
        CONSTRAINT ck_tenants_nat_session_seconds CHECK (
            nat_session_seconds = 0 OR nat_session_seconds BETWEEN 60 AND 86400
        ),
    -- Number of missing reports that ends a session. `silent_days` applies to sessions
    -- without reports.
    silent_reports int NOT NULL DEFAULT 3
        CONSTRAINT ck_tenants_silent_reports CHECK (silent_reports BETWEEN 2 AND 100),
    silent_days int NOT NULL DEFAULT 7 CONSTRAINT ck_tenants_silent_days CHECK (silent_days BETWEEN 1 AND 60),
    purge_at timestamptz,
    -- Suspended with its MSP, and resumed with it.
    suspended_with_msp boolean NOT NULL DEFAULT false
        CONSTRAINT ck_tenants_suspended_with_msp CHECK (NOT suspended_with_msp OR status = 'suspended'),
    -- Who suspended the tenant: 1 its own people, 2 its MSP, 3 the platform. A lower level
    -- cannot resume it.
    suspension_level smallint CONSTRAINT ck_tenants_suspension_level CHECK (suspension_level BETWEEN 1 AND 3),
    -- Realms and NetBIOS domains to remove from user names, in lower case. CORP\anna and
    -- anna@corp.example become anna.
    realms text[] NOT NULL DEFAULT '{}' CONSTRAINT ck_tenants_realms CHECK (cardinality(realms) <= 50),
    -- Maximum wrong passwords per user name within the window. Further logins of that user
    -- are rejected without a check.
    password_failure_limit int NOT NULL DEFAULT 20
        CONSTRAINT ck_tenants_password_failure_limit CHECK (password_failure_limit > 0),
    password_failure_window_seconds int NOT NULL DEFAULT 900
        CONSTRAINT ck_tenants_password_failure_window CHECK (
            password_failure_window_seconds BETWEEN 1 AND 3600
        ),
    CONSTRAINT ck_tenants_purge_at CHECK (purge_at IS NULL OR status = 'deleting')
);
CREATE INDEX ix_tenants_msp_id ON tenants (msp_id);
CREATE INDEX ix_tenants_purge_at ON tenants (purge_at) WHERE purge_at IS NOT NULL;
GRANT SELECT, INSERT, UPDATE, DELETE ON tenants TO admit_app, admit_worker;
GRANT SELECT ON tenants TO admit_public, admit_cell;
-- SELECT ... FOR SHARE requires UPDATE on one column.
GRANT UPDATE (created_at) ON tenants TO admit_public;

-- Deleted tenants whose logs remain. The deletion of a tenant inserts its row, and the worker
-- deletes the logs in batches.
CREATE TABLE purged_tenants (
    tenant_id uuid CONSTRAINT pk_purged_tenants PRIMARY KEY,
    purged_at timestamptz NOT NULL DEFAULT now()
);
GRANT SELECT, DELETE ON purged_tenants TO admit_worker;

CREATE TABLE tenant_moves (
    id uuid CONSTRAINT pk_tenant_moves PRIMARY KEY DEFAULT gen_random_uuid(),
    tenant_id uuid NOT NULL CONSTRAINT fk_tenant_moves_tenant_id REFERENCES tenants ON DELETE CASCADE,
    state text NOT NULL DEFAULT 'prepared'
        CONSTRAINT ck_tenant_moves_state CHECK (state IN ('prepared', 'switched', 'finished', 'cancelled')),
    from_cell_id int NOT NULL,
    from_slot_id uuid NOT NULL,
    to_cell_id int NOT NULL,
    to_slot_id uuid NOT NULL,
    created_by text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    switched_at timestamptz,
    ended_at timestamptz
);
CREATE UNIQUE INDEX ix_tenant_moves_open ON tenant_moves (tenant_id) WHERE state IN ('prepared', 'switched');
CREATE INDEX ix_tenant_moves_tenant_id ON tenant_moves (tenant_id, created_at);
GRANT SELECT, INSERT, UPDATE ON tenant_moves TO admit_app, admit_worker;
