-- A tenant's own choices; without a row all is as built in (nac.redecisions.settings).
CREATE TABLE redecision_settings (
    tenant_id uuid CONSTRAINT pk_redecision_settings PRIMARY KEY
        CONSTRAINT fk_redecision_settings_tenant_id REFERENCES tenants ON DELETE CASCADE,
    mode text NOT NULL DEFAULT 'send' CONSTRAINT ck_redecision_settings_mode CHECK (mode IN ('off', 'preview', 'send')),
    per_second int NOT NULL DEFAULT 20 CONSTRAINT ck_redecision_settings_per_second CHECK (per_second BETWEEN 1 AND 500),
    -- Further disconnects than either wait for a person.
    ceiling_percent int NOT NULL DEFAULT 10
        CONSTRAINT ck_redecision_settings_ceiling_percent CHECK (ceiling_percent BETWEEN 0 AND 100),
    ceiling_sessions int NOT NULL DEFAULT 1000
        CONSTRAINT ck_redecision_settings_ceiling_sessions CHECK (ceiling_sessions >= 0),
    -- All sessions are looked at so often without any change, because time goes by; 0 for never.
    every_minutes int NOT NULL DEFAULT 0
        CONSTRAINT ck_redecision_settings_every_minutes CHECK (every_minutes = 0 OR every_minutes BETWEEN 5 AND 1440),
    looked_at timestamptz NOT NULL DEFAULT now()
);

-- What has changed since sessions were decided. Only ever appended to, so that nobody who writes here waits for anybody.
CREATE TABLE redecision_marks (
    id bigint CONSTRAINT pk_redecision_marks PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    tenant_id uuid NOT NULL CONSTRAINT fk_redecision_marks_tenant_id REFERENCES tenants ON DELETE CASCADE,
    -- As in replica_changes, with -again for a second look; of our own 'late' (sessions of a later row than key),
    -- 'session', 'time' and 'silence'.
    noun text NOT NULL,
    key text NOT NULL,
    -- The cell must decide with it first; NULL where there is nothing to wait for.
    xact xid8,
    due_at timestamptz NOT NULL DEFAULT now() + interval '1 second'
);
CREATE INDEX ix_redecision_marks_tenant_id_due_at ON redecision_marks (tenant_id, due_at);

CREATE TABLE redecisions (
    id bigint CONSTRAINT pk_redecisions PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    tenant_id uuid NOT NULL CONSTRAINT fk_redecisions_tenant_id REFERENCES tenants ON DELETE CASCADE,
    created_at timestamptz NOT NULL DEFAULT now(),
    -- For a person: what changed, and who asked.
    cause text NOT NULL DEFAULT '',
    asked_by text NOT NULL DEFAULT '',
    -- Every live session, or those that the changes concern.
    scope text NOT NULL CONSTRAINT ck_redecisions_scope CHECK (scope IN ('all', 'some')),
    state text NOT NULL DEFAULT 'deciding'
        CONSTRAINT ck_redecisions_state CHECK (state IN ('deciding', 'waiting', 'sending', 'done', 'stopped', 'superseded')),
    -- Why it waits for a person: preview | ceiling.
    waits_for text NOT NULL DEFAULT '',
    -- A person asked for it or approved it: it sends whatever the mode is.
    sends boolean NOT NULL DEFAULT false,
    -- A later change came while it decided: all is to be looked at once more.
    again boolean NOT NULL DEFAULT false,
    -- The session that was looked at last; they are read from the newest on.
    cursor_at timestamptz,
    cursor_id bigint,
    sessions int NOT NULL DEFAULT 0,
    unchanged int NOT NULL DEFAULT 0,
    disconnects int NOT NULL DEFAULT 0,
    reauthentications int NOT NULL DEFAULT 0,
    -- Of the sessions that cannot be decided anew: how many for which reason.
    undecidable jsonb NOT NULL DEFAULT '{}',
    -- When requests of it were queued last.
    fed_at timestamptz,
    ended_at timestamptz,
    detail text NOT NULL DEFAULT ''
);
CREATE INDEX ix_redecisions_tenant_id_id ON redecisions (tenant_id, id);
CREATE INDEX ix_redecisions_at_work ON redecisions (tenant_id, id) WHERE state IN ('deciding', 'sending');

-- The sessions that would be decided otherwise: up to all of a tenant, so without a look at the run for each.
CREATE TABLE redecision_items (
    tenant_id uuid NOT NULL CONSTRAINT fk_redecision_items_tenant_id REFERENCES tenants ON DELETE CASCADE,
    redecision_id bigint NOT NULL,
    session_row bigint NOT NULL,
    action text NOT NULL CONSTRAINT ck_redecision_items_action CHECK (action IN ('disconnect', 'reauthenticate')),
    -- found, then asked (of the NAS), settled (no longer needed) or withdrawn
    state text NOT NULL DEFAULT 'found'
        CONSTRAINT ck_redecision_items_state CHECK (state IN ('found', 'asked', 'settled', 'withdrawn')),
    nas text NOT NULL,
    nas_key text NOT NULL,
    site text NOT NULL,
    mac macaddr,
    identity text NOT NULL,
    before_verdict text NOT NULL,
    before_rule text NOT NULL,
    before_vlan text NOT NULL,
    before_monitored text NOT NULL,
    after_verdict text NOT NULL,
    after_rule text NOT NULL,
    after_vlan text NOT NULL,
    after_monitored text NOT NULL,
    -- A code of nac.reasons.
    after_reason text NOT NULL,
    CONSTRAINT pk_redecision_items PRIMARY KEY (tenant_id, redecision_id, session_row)
);
CREATE INDEX ix_redecision_items_found ON redecision_items (tenant_id, redecision_id, session_row) WHERE state = 'found';

GRANT SELECT, INSERT, UPDATE, DELETE ON redecision_settings, redecision_marks, redecisions, redecision_items
    TO admit_app, admit_worker;

-- Which re-decision a request follows from.
ALTER TABLE coa_requests ADD COLUMN redecision_id bigint;
CREATE INDEX ix_coa_requests_redecision_id ON coa_requests (redecision_id) WHERE redecision_id IS NOT NULL;
CREATE INDEX ix_coa_requests_tenant_id_session_row ON coa_requests (tenant_id, session_row);
