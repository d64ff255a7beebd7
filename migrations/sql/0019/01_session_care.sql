ALTER TABLE tenants
    -- So many reports that did not come end a session; without any report, so many days.
    ADD COLUMN silent_reports int NOT NULL DEFAULT 3
        CONSTRAINT ck_tenants_silent_reports CHECK (silent_reports BETWEEN 2 AND 100),
    ADD COLUMN silent_days int NOT NULL DEFAULT 7
        CONSTRAINT ck_tenants_silent_days CHECK (silent_days BETWEEN 1 AND 60);

-- A NAS is asked for without its site; a controller has more sessions than can be sorted in passing.
DROP INDEX ix_sessions_live_site;
CREATE INDEX ix_sessions_live_site ON sessions (tenant_id, site_id, started_at DESC, id DESC) WHERE stopped_at IS NULL;
CREATE INDEX ix_sessions_live_nas ON sessions (tenant_id, nas_id, started_at DESC, id DESC) WHERE stopped_at IS NULL;
-- As those of the prefixes: most sessions have none.
CREATE INDEX ix_sessions_live_framed_ipv6 ON sessions (tenant_id, framed_ipv6)
    WHERE stopped_at IS NULL AND framed_ipv6 IS NOT NULL;
