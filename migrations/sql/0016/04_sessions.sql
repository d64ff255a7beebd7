-- Who holds a prefix; of sessions that have one.
CREATE INDEX ix_sessions_live_framed_prefix ON sessions (tenant_id, framed_prefix)
    WHERE stopped_at IS NULL AND framed_prefix IS NOT NULL;
CREATE INDEX ix_sessions_live_delegated_prefix ON sessions (tenant_id, delegated_prefix)
    WHERE stopped_at IS NULL AND delegated_prefix IS NOT NULL;
