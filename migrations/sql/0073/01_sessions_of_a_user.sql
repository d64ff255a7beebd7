-- One name may be that of all ("anonymous"): in their order, whatever the name, so that what is looked up by it is planned
-- once and not for each name.
-- Reads go on while it is built.
CREATE INDEX ix_sessions_live_identity_new ON sessions (tenant_id, identity_key, started_at DESC, id DESC) WHERE stopped_at IS NULL;
DROP INDEX ix_sessions_live_identity;
ALTER INDEX ix_sessions_live_identity_new RENAME TO ix_sessions_live_identity;
