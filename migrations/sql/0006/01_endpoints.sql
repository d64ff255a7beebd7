-- A discovered endpoint was seen and decided about by nobody; an ignored one was looked at and left as it is.
ALTER TABLE endpoints
    DROP CONSTRAINT ck_endpoints_status,
    ADD CONSTRAINT ck_endpoints_status CHECK (status IN ('active', 'blocked', 'discovered', 'ignored')),
    ADD COLUMN owner text NOT NULL DEFAULT '',
    ADD COLUMN notes text NOT NULL DEFAULT '',
    ADD COLUMN first_seen_at timestamptz,
    ADD COLUMN vendor text NOT NULL DEFAULT '',
    -- What the worker found, and what a person says in its place.
    ADD COLUMN found_profile text NOT NULL DEFAULT '',
    ADD COLUMN found_confidence int NOT NULL DEFAULT 0
        CONSTRAINT ck_endpoints_found_confidence CHECK (found_confidence BETWEEN 0 AND 100),
    ADD COLUMN found_why jsonb NOT NULL DEFAULT '[]',
    ADD COLUMN set_profile text NOT NULL DEFAULT '',
    ADD COLUMN os text NOT NULL DEFAULT '',
    ADD COLUMN model text NOT NULL DEFAULT '',
    ADD COLUMN posture jsonb NOT NULL DEFAULT '{}',
    ADD COLUMN psk_sealed bytea;
CREATE INDEX ix_endpoints_discovered ON endpoints (tenant_id, mac) WHERE status = 'discovered';

ALTER TABLE endpoint_groups
    ADD COLUMN rule jsonb,
    -- The rule is worked out anew for endpoints beyond this address; NULL where it is worked out for all.
    ADD COLUMN rule_cursor macaddr,
    ADD COLUMN psk_sealed bytea,
    ADD CONSTRAINT ck_endpoint_groups_rule_cursor CHECK (rule IS NOT NULL OR rule_cursor IS NULL);

-- The passphrase of a group is part of its members' records.
CREATE FUNCTION record_group_psk_change() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    INSERT INTO replica_changes (tenant_id, noun, key)
    SELECT m.tenant_id, 'endpoint', replica_change_key('endpoint', e.mac::text)
    FROM endpoint_group_members m JOIN endpoints e ON e.id = m.endpoint_id
    WHERE m.group_id = NEW.id;
    PERFORM pg_notify('replica_changes', '');
    RETURN NULL;
END
$$;
CREATE TRIGGER psk_change AFTER UPDATE OF psk_sealed, rule ON endpoint_groups
    FOR EACH ROW WHEN (OLD.psk_sealed IS DISTINCT FROM NEW.psk_sealed OR (OLD.rule IS NULL) <> (NEW.rule IS NULL))
    EXECUTE FUNCTION record_group_psk_change();
