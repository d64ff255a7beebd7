-- A session id, or a Chargeable-User-Identity, as a bill or another system names it; few NASes tell the latter.
-- With the condition, the merging of records cannot take the first for the index of its own, which knows the NAS too.
CREATE INDEX ix_sessions_session_id ON sessions (tenant_id, session_id) WHERE session_id <> '';
CREATE INDEX ix_sessions_cui ON sessions (tenant_id, cui) WHERE cui <> '';

-- What ended long ago is asked for as what is live is.
CREATE INDEX ix_session_history_tenant_id_site_id ON session_history (tenant_id, site_id, stopped_at DESC);
CREATE INDEX ix_session_history_tenant_id_nas_id ON session_history (tenant_id, nas_id, stopped_at DESC);
CREATE INDEX ix_session_history_tenant_id_session_id ON session_history (tenant_id, session_id, stopped_at DESC);
CREATE INDEX ix_session_history_tenant_id_cui ON session_history (tenant_id, cui, stopped_at DESC) WHERE cui <> '';
CREATE INDEX ix_session_history_tenant_id_framed_ipv6 ON session_history (tenant_id, framed_ipv6)
    WHERE framed_ipv6 IS NOT NULL;
CREATE INDEX ix_session_history_tenant_id_framed_prefix ON session_history (tenant_id, framed_prefix)
    WHERE framed_prefix IS NOT NULL;
CREATE INDEX ix_session_history_tenant_id_delegated_prefix ON session_history (tenant_id, delegated_prefix)
    WHERE delegated_prefix IS NOT NULL;
