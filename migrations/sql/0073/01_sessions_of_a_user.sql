-- One name may be that of all ("anonymous"): in their order, whatever the name, so that what is looked up by it is planned
-- once and not for each name.
DROP INDEX ix_sessions_live_identity;
CREATE INDEX ix_sessions_live_identity ON sessions (tenant_id, identity_key, started_at DESC, id DESC) WHERE stopped_at IS NULL;
