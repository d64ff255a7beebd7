-- Equal NASes of two sites are two; the site is all zeros where none is known.
ALTER TABLE nas_restarts
    ADD COLUMN site_id uuid NOT NULL DEFAULT '00000000-0000-0000-0000-000000000000',
    -- How far its sessions from before are ended, by (session_id, mac_key, started_at); NULL when all are.
    ADD COLUMN ended_session text,
    ADD COLUMN ended_mac text,
    ADD COLUMN ended_start timestamptz,
    DROP CONSTRAINT pk_nas_restarts,
    ADD CONSTRAINT pk_nas_restarts PRIMARY KEY (tenant_id, nas_key, site_id);
GRANT UPDATE (ended_session, ended_mac, ended_start), DELETE ON nas_restarts TO admit_cell;
