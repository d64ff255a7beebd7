CREATE TABLE sessions (
    id bigint CONSTRAINT pk_sessions PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    tenant_id uuid NOT NULL,
    nas_key text NOT NULL,
    session_id text NOT NULL,
    mac_key text NOT NULL,
    started_at timestamptz NOT NULL,
    site_id uuid,
    nas_id uuid,
    nas_address inet,
    mac macaddr,
    identity text NOT NULL DEFAULT '',
    framed_ip inet,
    updated_at timestamptz NOT NULL,
    stopped_at timestamptz,
    session_seconds bigint,
    input_octets bigint,
    output_octets bigint,
    terminate_cause text NOT NULL DEFAULT '',
    flags text[] NOT NULL DEFAULT '{}',
    nas_port text NOT NULL DEFAULT '',
    framed_ipv6 inet,
    -- Framed-IPv6-Prefix. `delegated_prefix` is Delegated-IPv6-Prefix.
    framed_prefix inet,
    delegated_prefix inet,
    -- Class and Chargeable-User-Identity of the decision, as the NAS returned them.
    class text NOT NULL DEFAULT '',
    cui text NOT NULL DEFAULT '',
    -- Between the last two reports.
    interim_seconds int,
    -- Hour of the last report. usage_hours has the settled values. The rest belongs to this
    -- hour.
    usage_hour timestamptz NOT NULL DEFAULT date_trunc('hour', now(), 'UTC'),
    settled_seconds bigint NOT NULL DEFAULT 0,
    settled_input bigint NOT NULL DEFAULT 0,
    settled_output bigint NOT NULL DEFAULT 0,
    -- For comparisons. A column, because row-level security keeps lower() from using an
    -- index: it is not leakproof.
    identity_key text GENERATED ALWAYS AS (lower(identity)) STORED,
    CONSTRAINT uq_sessions_identity UNIQUE (tenant_id, nas_key, session_id, mac_key, started_at)
) WITH (fillfactor = 70);
CREATE INDEX ix_sessions_live ON sessions (tenant_id, started_at DESC, id DESC) WHERE stopped_at IS NULL;
-- Not a hash index. Many sessions share a name ("anonymous") or a private address, and a hash
-- index scans all of them for each insert.
CREATE INDEX ix_sessions_live_mac ON sessions (tenant_id, mac) WHERE stopped_at IS NULL;
CREATE INDEX ix_sessions_live_framed_ip ON sessions (tenant_id, framed_ip) WHERE stopped_at IS NULL;
-- The worker moves ended sessions by this index, oldest first. Stale sessions stay: they only
-- seem to have ended.
CREATE INDEX ix_sessions_ended ON sessions (tenant_id, stopped_at)
    WHERE stopped_at IS NOT NULL AND NOT ('stale' = ANY (flags));
CREATE INDEX ix_sessions_stale ON sessions (tenant_id, stopped_at)
    WHERE stopped_at IS NOT NULL AND 'stale' = ANY (flags);
CREATE INDEX ix_sessions_ended_mac ON sessions (tenant_id, mac) WHERE stopped_at IS NOT NULL;
CREATE INDEX ix_sessions_ended_identity ON sessions (tenant_id, identity_key) WHERE stopped_at IS NOT NULL;
CREATE INDEX ix_sessions_ended_framed_ip ON sessions (tenant_id, framed_ip) WHERE stopped_at IS NOT NULL;
-- Queries name a site or a NAS. A controller has too many sessions to sort, so each has an index
-- in page order.
CREATE INDEX ix_sessions_live_site ON sessions (tenant_id, site_id, started_at DESC, id DESC)
    WHERE stopped_at IS NULL;
CREATE INDEX ix_sessions_live_nas ON sessions (tenant_id, nas_id, started_at DESC, id DESC)
    WHERE stopped_at IS NULL;
-- Bills and other systems name a session by its id or its Chargeable-User-Identity. The
-- conditions keep the merge of records from choosing the first index instead of its own, which
-- includes the NAS.
CREATE INDEX ix_sessions_session_id ON sessions (tenant_id, session_id) WHERE session_id <> '';
CREATE INDEX ix_sessions_cui ON sessions (tenant_id, cui) WHERE cui <> '';
-- Live and recently ended sessions. Most have no IPv6 address or prefix.
CREATE INDEX ix_sessions_framed_ipv6 ON sessions (tenant_id, framed_ipv6) WHERE framed_ipv6 IS NOT NULL;
CREATE INDEX ix_sessions_framed_prefix ON sessions (tenant_id, framed_prefix) WHERE framed_prefix IS NOT NULL;
CREATE INDEX ix_sessions_delegated_prefix ON sessions (tenant_id, delegated_prefix)
    WHERE delegated_prefix IS NOT NULL;
-- Recently ended sessions of a site or a NAS, newest first.
CREATE INDEX ix_sessions_ended_site ON sessions (tenant_id, site_id, stopped_at DESC, id DESC)
    WHERE stopped_at IS NOT NULL;
CREATE INDEX ix_sessions_ended_nas ON sessions (tenant_id, nas_id, stopped_at DESC, id DESC)
    WHERE stopped_at IS NOT NULL;
-- In page order. All sessions can have the same name ("anonymous"), and one plan serves all
-- names.
CREATE INDEX ix_sessions_live_identity ON sessions (tenant_id, identity_key, started_at DESC, id DESC)
    WHERE stopped_at IS NULL;
GRANT SELECT, DELETE ON sessions TO admit_app;
GRANT SELECT, INSERT, DELETE ON sessions TO admit_cell;
GRANT SELECT, UPDATE, DELETE ON sessions TO admit_worker;
-- Not the tenant of a row.
GRANT UPDATE (
    site_id, nas_id, nas_address, identity, framed_ip, updated_at, stopped_at, session_seconds,
    input_octets, output_octets, terminate_cause, flags, nas_port, framed_ipv6, framed_prefix,
    delegated_prefix, class, cui, interim_seconds, usage_hour, settled_seconds, settled_input,
    settled_output
) ON sessions TO admit_cell;

-- Sessions that ended too long ago for another record. Rows never change.
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
    -- A backward scan lists a tenant's sessions, last ended first.
    CONSTRAINT pk_session_history PRIMARY KEY (tenant_id, stopped_at, id)
) PARTITION BY RANGE (stopped_at);
CREATE TABLE session_history_default PARTITION OF session_history DEFAULT;
CREATE INDEX ix_session_history_tenant_id_mac ON session_history (tenant_id, mac, stopped_at DESC);
CREATE INDEX ix_session_history_tenant_id_identity ON session_history (tenant_id, identity_key, stopped_at DESC);
CREATE INDEX ix_session_history_tenant_id_framed_ip ON session_history (tenant_id, framed_ip, stopped_at DESC);
-- Searches of old sessions are the same as those of live ones.
CREATE INDEX ix_session_history_tenant_id_site_id ON session_history (tenant_id, site_id, stopped_at DESC);
CREATE INDEX ix_session_history_tenant_id_nas_id ON session_history (tenant_id, nas_id, stopped_at DESC);
CREATE INDEX ix_session_history_tenant_id_session_id ON session_history (tenant_id, session_id, stopped_at DESC);
CREATE INDEX ix_session_history_tenant_id_cui ON session_history (tenant_id, cui, stopped_at DESC)
    WHERE cui <> '';
CREATE INDEX ix_session_history_tenant_id_framed_ipv6 ON session_history (tenant_id, framed_ipv6)
    WHERE framed_ipv6 IS NOT NULL;
CREATE INDEX ix_session_history_tenant_id_framed_prefix ON session_history (tenant_id, framed_prefix)
    WHERE framed_prefix IS NOT NULL;
CREATE INDEX ix_session_history_tenant_id_delegated_prefix ON session_history (tenant_id, delegated_prefix)
    WHERE delegated_prefix IS NOT NULL;
-- An old session by its id. Without the index, PostgreSQL reads all rows of the tenant.
CREATE INDEX ix_session_history_tenant_id_id ON session_history (tenant_id, id);
GRANT SELECT ON session_history TO admit_app;
GRANT INSERT ON session_history TO admit_cell;
GRANT SELECT, INSERT, DELETE ON session_history TO admit_worker;

-- Last start or stop of accounting by each NAS. Older records can arrive later.
CREATE TABLE nas_restarts (
    tenant_id uuid NOT NULL,
    nas_key text NOT NULL,
    restarted_at timestamptz NOT NULL,
    -- Equal NASes of two sites differ. Zeros for an unknown site.
    site_id uuid NOT NULL DEFAULT '00000000-0000-0000-0000-000000000000',
    -- Progress of ending its older sessions, by (session_id, mac_key, started_at). NULL when
    -- complete.
    ended_session text,
    ended_mac text,
    ended_start timestamptz,
    CONSTRAINT pk_nas_restarts PRIMARY KEY (tenant_id, nas_key, site_id)
);
GRANT SELECT, DELETE ON nas_restarts TO admit_app, admit_worker;
GRANT SELECT, INSERT, DELETE ON nas_restarts TO admit_cell;
GRANT UPDATE (restarted_at, ended_session, ended_mac, ended_start) ON nas_restarts TO admit_cell;

-- Usage of each session in each hour with a report. Inserted once, when the hour or the session
-- ends.
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
    output_octets bigint NOT NULL,
    -- The NAS's own name for itself, as in sessions, because a NAS need not be registered.
    nas_key text NOT NULL DEFAULT ''
) PARTITION BY RANGE (hour);
CREATE TABLE usage_hours_default PARTITION OF usage_hours DEFAULT;
CREATE INDEX ix_usage_hours_tenant_id_mac_hour ON usage_hours (tenant_id, mac, hour);
GRANT SELECT ON usage_hours TO admit_app;
GRANT INSERT ON usage_hours TO admit_cell;
GRANT SELECT, INSERT, DELETE ON usage_hours TO admit_worker;

-- All ended sessions, recent and old. Both parts have an index by time.
CREATE VIEW ended_sessions WITH (security_invoker = true) AS
SELECT
    id, tenant_id, nas_key, session_id, started_at, site_id, nas_id, nas_address, nas_port, mac, identity,
    framed_ip, framed_ipv6, framed_prefix, delegated_prefix, class, cui, updated_at, stopped_at,
    session_seconds, input_octets, output_octets, terminate_cause, flags
FROM session_history
UNION ALL
SELECT
    id, tenant_id, nas_key, session_id, started_at, site_id, nas_id, nas_address, nas_port, mac, identity,
    framed_ip, framed_ipv6, framed_prefix, delegated_prefix, class, cui, updated_at, stopped_at,
    session_seconds, input_octets, output_octets, terminate_cause, flags
FROM sessions WHERE stopped_at IS NOT NULL AND NOT ('stale' = ANY (flags))
UNION ALL
SELECT
    id, tenant_id, nas_key, session_id, started_at, site_id, nas_id, nas_address, nas_port, mac, identity,
    framed_ip, framed_ipv6, framed_prefix, delegated_prefix, class, cui, updated_at, stopped_at,
    session_seconds, input_octets, output_octets, terminate_cause, flags
FROM sessions WHERE stopped_at IS NOT NULL AND 'stale' = ANY (flags);
GRANT SELECT ON ended_sessions TO admit_app, admit_worker;
