-- A tenant's settings. Defaults without a row are in nac.redecisions.settings.
CREATE TABLE redecision_settings (
    tenant_id uuid
        CONSTRAINT pk_redecision_settings PRIMARY KEY
        CONSTRAINT fk_redecision_settings_tenant_id REFERENCES tenants ON DELETE CASCADE,
    mode text NOT NULL DEFAULT 'send'
        CONSTRAINT ck_redecision_settings_mode CHECK (mode IN ('off', 'preview', 'send')),
    per_second int NOT NULL DEFAULT 20
        CONSTRAINT ck_redecision_settings_per_second CHECK (per_second BETWEEN 1 AND 500),
    -- More disconnects than either ceiling need approval by a person.
    ceiling_percent int NOT NULL DEFAULT 10
        CONSTRAINT ck_redecision_settings_ceiling_percent CHECK (ceiling_percent BETWEEN 0 AND 100),
    ceiling_sessions int NOT NULL DEFAULT 1000
        CONSTRAINT ck_redecision_settings_ceiling_sessions CHECK (ceiling_sessions >= 0),
    -- Interval of checks of all sessions without a change, because conditions depend on
    -- time. 0: never.
    every_minutes int NOT NULL DEFAULT 0
        CONSTRAINT ck_redecision_settings_every_minutes CHECK (
            every_minutes = 0 OR every_minutes BETWEEN 5 AND 1440
        ),
    looked_at timestamptz NOT NULL DEFAULT now()
);
GRANT SELECT, INSERT, UPDATE, DELETE ON redecision_settings TO admit_app, admit_worker;

-- Changes since sessions were decided. Rows are only appended, so writers never wait for each
-- other.
CREATE TABLE redecision_marks (
    id bigint CONSTRAINT pk_redecision_marks PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    tenant_id uuid NOT NULL CONSTRAINT fk_redecision_marks_tenant_id REFERENCES tenants ON DELETE CASCADE,
    -- As in replica_changes, with -again for a second check. Own nouns: 'late' (sessions
    -- with a row above `key`), 'session', 'time' and 'silence'.
    noun text NOT NULL,
    key text NOT NULL,
    -- The cell must have this transaction first. NULL if there is nothing to wait for.
    xact xid8,
    due_at timestamptz NOT NULL DEFAULT now() + interval '1 second'
);
CREATE INDEX ix_redecision_marks_tenant_id_due_at ON redecision_marks (tenant_id, due_at);
-- No statistics, as for endpoints (docs/adr/0014).
ALTER TABLE redecision_marks ALTER tenant_id SET STATISTICS 0;
GRANT SELECT, INSERT, UPDATE, DELETE ON redecision_marks TO admit_app, admit_worker;

CREATE TABLE redecisions (
    id bigint CONSTRAINT pk_redecisions PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    tenant_id uuid NOT NULL CONSTRAINT fk_redecisions_tenant_id REFERENCES tenants ON DELETE CASCADE,
    created_at timestamptz NOT NULL DEFAULT now(),
    -- For people: the change and the person who requested the run.
    cause text NOT NULL DEFAULT '',
    requested_by text NOT NULL DEFAULT '',
    -- All live sessions, or those that the changes concern.
    scope text NOT NULL CONSTRAINT ck_redecisions_scope CHECK (scope IN ('all', 'some')),
    state text NOT NULL DEFAULT 'deciding'
        CONSTRAINT ck_redecisions_state CHECK (
            state IN ('deciding', 'waiting', 'sending', 'done', 'stopped', 'superseded')
        ),
    -- Why it waits for approval: preview or ceiling.
    waits_for text NOT NULL DEFAULT '',
    -- A person started or approved it, so it sends requests in every mode.
    sends boolean NOT NULL DEFAULT false,
    -- A change came during the run: check all sessions once more.
    again boolean NOT NULL DEFAULT false,
    -- The last checked session. The run starts with the newest.
    cursor_at timestamptz,
    cursor_id bigint,
    sessions int NOT NULL DEFAULT 0,
    unchanged int NOT NULL DEFAULT 0,
    disconnects int NOT NULL DEFAULT 0,
    reauthentications int NOT NULL DEFAULT 0,
    -- Number of sessions without a new decision, by reason.
    undecidable jsonb NOT NULL DEFAULT '{}',
    -- Time of the last queued request.
    fed_at timestamptz,
    ended_at timestamptz,
    detail text NOT NULL DEFAULT '',
    may_disconnect int NOT NULL DEFAULT 0,
    -- Summary of the items after their deletion.
    found jsonb,
    -- Later runs with the same result do not send what a person stopped
    -- (docs/how-to/redecisions.md).
    holds boolean NOT NULL DEFAULT false,
    held_back integer NOT NULL DEFAULT 0
);
CREATE INDEX ix_redecisions_tenant_id_id ON redecisions (tenant_id, id);
CREATE INDEX ix_redecisions_at_work ON redecisions (tenant_id, id) WHERE state IN ('deciding', 'sending');
CREATE INDEX ix_redecisions_waiting ON redecisions (tenant_id, id) WHERE state = 'waiting';
CREATE INDEX ix_redecisions_holding ON redecisions (tenant_id, id) WHERE holds;
GRANT SELECT, INSERT, UPDATE, DELETE ON redecisions TO admit_app, admit_worker;

-- Sessions with a different decision: up to all of a tenant. No foreign key to the run, because
-- its check would cost a lookup per row.
CREATE TABLE redecision_items (
    tenant_id uuid NOT NULL CONSTRAINT fk_redecision_items_tenant_id REFERENCES tenants ON DELETE CASCADE,
    redecision_id bigint NOT NULL,
    session_row bigint NOT NULL,
    action text NOT NULL
        CONSTRAINT ck_redecision_items_action CHECK (action IN ('disconnect', 'reauthenticate')),
    -- found, then requested (from the NAS), settled (no longer needed) or withdrawn.
    state text NOT NULL DEFAULT 'found'
        CONSTRAINT ck_redecision_items_state CHECK (state IN ('found', 'requested', 'settled', 'withdrawn')),
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
    -- A code of nac.engine.reasons.
    after_reason text NOT NULL,
    -- Whether a step of the NAS's recipe is a Disconnect.
    may_disconnect boolean NOT NULL DEFAULT true,
    released boolean NOT NULL DEFAULT false,
    CONSTRAINT pk_redecision_items PRIMARY KEY (tenant_id, redecision_id, session_row)
);
CREATE INDEX ix_redecision_items_found ON redecision_items (tenant_id, redecision_id, session_row)
    WHERE state = 'found';
-- No statistics, as for endpoints (docs/adr/0014).
ALTER TABLE redecision_items ALTER tenant_id SET STATISTICS 0;
GRANT SELECT, INSERT, UPDATE, DELETE ON redecision_items TO admit_app, admit_worker;

-- Position in the change feed.
CREATE TABLE redecision_position (
    id int CONSTRAINT pk_redecision_position PRIMARY KEY CONSTRAINT ck_redecision_position_id CHECK (id = 1),
    position pg_snapshot NOT NULL,
    looked_at timestamptz NOT NULL DEFAULT now()
);

-- Tenants whose sessions could not be decided again, until they can.
CREATE TABLE redecision_failures (
    tenant_id uuid
        CONSTRAINT pk_redecision_failures PRIMARY KEY
        CONSTRAINT fk_redecision_failures_tenant_id REFERENCES tenants ON DELETE CASCADE,
    since timestamptz NOT NULL DEFAULT now(),
    times int NOT NULL DEFAULT 1,
    -- Of the last attempt.
    detail text NOT NULL
);
GRANT SELECT, INSERT, UPDATE, DELETE ON redecision_failures TO admit_app, admit_worker;
GRANT SELECT ON redecision_failures TO admit_cell;
