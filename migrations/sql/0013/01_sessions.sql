ALTER TABLE sessions
    ADD COLUMN nas_port text NOT NULL DEFAULT '',
    ADD COLUMN framed_ipv6 inet,
    -- Framed-IPv6-Prefix and Delegated-IPv6-Prefix.
    ADD COLUMN framed_prefix inet,
    ADD COLUMN delegated_prefix inet,
    -- What came back of the Class and the Chargeable-User-Identity that the decision gave out.
    ADD COLUMN class text NOT NULL DEFAULT '',
    ADD COLUMN cui text NOT NULL DEFAULT '',
    -- Between the last two reports.
    ADD COLUMN interim_seconds int,
    -- The hour of the last report, and what usage_hours holds already: the rest is of this hour.
    ADD COLUMN usage_hour timestamptz NOT NULL DEFAULT date_trunc('hour', now(), 'UTC'),
    ADD COLUMN settled_seconds bigint NOT NULL DEFAULT 0,
    ADD COLUMN settled_input bigint NOT NULL DEFAULT 0,
    ADD COLUMN settled_output bigint NOT NULL DEFAULT 0;

-- How names are compared; behind row-level security lower() would not reach an index, because it is not leakproof.
ALTER TABLE sessions ADD COLUMN identity_key text GENERATED ALWAYS AS (lower(identity)) STORED;
-- Not hash indexes: many have the same name ("anonymous") or private address, and a hash index walks through all of those
-- to add one.
DROP INDEX ix_sessions_live_mac, ix_sessions_live_identity;
CREATE INDEX ix_sessions_live_mac ON sessions (tenant_id, mac) WHERE stopped_at IS NULL;
CREATE INDEX ix_sessions_live_identity ON sessions (tenant_id, identity_key) WHERE stopped_at IS NULL;
CREATE INDEX ix_sessions_live_framed_ip ON sessions (tenant_id, framed_ip) WHERE stopped_at IS NULL;
CREATE INDEX ix_sessions_live_site ON sessions (tenant_id, site_id, nas_id, started_at DESC, id DESC) WHERE stopped_at IS NULL;
-- By the first, sessions that ended are moved away, oldest first; none that were only taken for ended are.
CREATE INDEX ix_sessions_ended ON sessions (tenant_id, stopped_at) WHERE stopped_at IS NOT NULL AND NOT ('stale' = ANY (flags));
CREATE INDEX ix_sessions_stale ON sessions (tenant_id, stopped_at) WHERE stopped_at IS NOT NULL AND 'stale' = ANY (flags);
CREATE INDEX ix_sessions_ended_mac ON sessions (tenant_id, mac) WHERE stopped_at IS NOT NULL;
CREATE INDEX ix_sessions_ended_identity ON sessions (tenant_id, identity_key) WHERE stopped_at IS NOT NULL;
CREATE INDEX ix_sessions_ended_framed_ip ON sessions (tenant_id, framed_ip) WHERE stopped_at IS NOT NULL;

-- Sessions that ended too long ago for a record of theirs to come. Nothing is ever changed here.
CREATE TABLE session_history (
    id bigint NOT NULL,
    tenant_id uuid NOT NULL,
    nas_key text NOT NULL,
    session_id text NOT NULL,
    mac_key text NOT NULL,
    started_at timestamptz NOT NULL,
    site_id uuid,
    nas_id uuid,
    nas_address inet,
    nas_port text NOT NULL,
    mac macaddr,
    identity text NOT NULL,
    identity_key text NOT NULL,
    framed_ip inet,
    framed_ipv6 inet,
    framed_prefix inet,
    delegated_prefix inet,
    class text NOT NULL,
    cui text NOT NULL,
    updated_at timestamptz NOT NULL,
    stopped_at timestamptz NOT NULL,
    session_seconds bigint,
    input_octets bigint,
    output_octets bigint,
    terminate_cause text NOT NULL,
    flags text[] NOT NULL,
    -- Read backwards, it lists a tenant's sessions from the one that ended last.
    CONSTRAINT pk_session_history PRIMARY KEY (tenant_id, stopped_at, id)
) PARTITION BY RANGE (stopped_at);
CREATE INDEX ix_session_history_tenant_id_mac ON session_history (tenant_id, mac, stopped_at DESC);
CREATE INDEX ix_session_history_tenant_id_identity ON session_history (tenant_id, identity_key, stopped_at DESC);
CREATE INDEX ix_session_history_tenant_id_framed_ip ON session_history (tenant_id, framed_ip, stopped_at DESC);
CREATE TABLE session_history_default PARTITION OF session_history DEFAULT;

-- When each NAS last started or stopped accounting: records from before may come after it.
CREATE TABLE nas_restarts (
    tenant_id uuid NOT NULL,
    nas_key text NOT NULL,
    restarted_at timestamptz NOT NULL,
    CONSTRAINT pk_nas_restarts PRIMARY KEY (tenant_id, nas_key)
);

-- What each session used in each hour in which its NAS reported: inserted once, when the hour or the session is over.
CREATE TABLE usage_hours (
    tenant_id uuid NOT NULL,
    hour timestamptz NOT NULL,
    session_row bigint NOT NULL,
    site_id uuid,
    nas_id uuid,
    mac macaddr,
    identity text NOT NULL,
    seconds bigint NOT NULL,
    input_octets bigint NOT NULL,
    output_octets bigint NOT NULL
) PARTITION BY RANGE (hour);
CREATE INDEX ix_usage_hours_tenant_id_mac_hour ON usage_hours (tenant_id, mac, hour);
CREATE TABLE usage_hours_default PARTITION OF usage_hours DEFAULT;

DO $$
DECLARE
    owned name;
BEGIN
    FOREACH owned IN ARRAY ARRAY['session_history', 'usage_hours']::name[] LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', owned);
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', owned || '_default');
        EXECUTE format(
            'CREATE POLICY tenant_scope ON %I TO admit_app, admit_worker '
            'USING (tenant_id = scope_tenant_id()) WITH CHECK (tenant_id = scope_tenant_id())',
            owned
        );
        EXECUTE format('GRANT SELECT ON %I TO admit_app, admit_worker', owned);
        EXECUTE format('GRANT INSERT, DELETE ON %I TO admit_worker', owned);
    END LOOP;
END
$$;
CREATE POLICY cell_scope ON usage_hours FOR INSERT TO admit_cell
    WITH CHECK (tenant_id IN (SELECT s.tenant_id FROM slots s WHERE s.cell_id = scope_cell_id()));
GRANT INSERT ON usage_hours TO admit_cell;
GRANT UPDATE (
    nas_port, framed_ipv6, framed_prefix, delegated_prefix, class, cui, interim_seconds, usage_hour, settled_seconds,
    settled_input, settled_output
) ON sessions TO admit_cell;
-- Moved, not thrown away.
CREATE POLICY cell_scope ON session_history FOR INSERT TO admit_cell
    WITH CHECK (tenant_id IN (SELECT s.tenant_id FROM slots s WHERE s.cell_id = scope_cell_id()));
GRANT INSERT ON session_history TO admit_cell;
GRANT DELETE ON sessions TO admit_cell;

ALTER TABLE nas_restarts ENABLE ROW LEVEL SECURITY;
CREATE POLICY tenant_scope ON nas_restarts TO admit_app, admit_worker
    USING (tenant_id = scope_tenant_id()) WITH CHECK (tenant_id = scope_tenant_id());
CREATE POLICY cell_scope ON nas_restarts TO admit_cell
    USING (tenant_id IN (SELECT s.tenant_id FROM slots s WHERE s.cell_id = scope_cell_id()))
    WITH CHECK (tenant_id IN (SELECT s.tenant_id FROM slots s WHERE s.cell_id = scope_cell_id()));
GRANT SELECT, DELETE ON nas_restarts TO admit_app, admit_worker;
GRANT SELECT, INSERT ON nas_restarts TO admit_cell;
GRANT UPDATE (restarted_at) ON nas_restarts TO admit_cell;

-- Makes Chargeable-User-Identities (RFC 4372).
ALTER TABLE tenants ADD COLUMN cui_key uuid NOT NULL DEFAULT gen_random_uuid();
