-- A NAS need not be registered: it is known by what it says of itself, as in sessions. "" in rows from before.
ALTER TABLE usage_hours ADD COLUMN nas_key text NOT NULL DEFAULT '';

-- Those that ended in the last days are found by these, too; most sessions have none.
DROP INDEX ix_sessions_live_framed_ipv6, ix_sessions_live_framed_prefix, ix_sessions_live_delegated_prefix;
CREATE INDEX ix_sessions_framed_ipv6 ON sessions (tenant_id, framed_ipv6) WHERE framed_ipv6 IS NOT NULL;
CREATE INDEX ix_sessions_framed_prefix ON sessions (tenant_id, framed_prefix) WHERE framed_prefix IS NOT NULL;
CREATE INDEX ix_sessions_delegated_prefix ON sessions (tenant_id, delegated_prefix) WHERE delegated_prefix IS NOT NULL;
