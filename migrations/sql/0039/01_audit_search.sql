-- Each in the order of pages, so that whichever the planner takes, nothing is sorted.
CREATE INDEX ix_audit_log_at_id ON audit_log (at, id);
CREATE INDEX ix_audit_log_msp_id_at_id ON audit_log (msp_id, at, id);
CREATE INDEX ix_audit_log_tenant_id_actor_at_id ON audit_log (tenant_id, actor, at, id);
CREATE INDEX ix_audit_log_tenant_id_action_at_id ON audit_log (tenant_id, action, at, id);
CREATE INDEX ix_audit_log_tenant_id_target_at_id ON audit_log (tenant_id, target, at, id);
CREATE INDEX ix_audit_log_request_id ON audit_log (request_id);
