ALTER TABLE endpoint_sightings
    ADD COLUMN first_seen_at timestamptz DEFAULT now(),
    ADD COLUMN ssid text NOT NULL DEFAULT '',
    ADD COLUMN method text NOT NULL DEFAULT '',
    ADD COLUMN identity text NOT NULL DEFAULT '',
    -- How often it was written: once a minute at the most.
    ADD COLUMN times int NOT NULL DEFAULT 1,
    ALTER COLUMN permitted DROP NOT NULL; -- accounting alone does not tell
UPDATE endpoint_sightings SET first_seen_at = last_seen_at;
ALTER TABLE endpoint_sightings ALTER COLUMN first_seen_at SET NOT NULL;

-- What devices and switches said of a MAC address: one value for each key, of which there is a fixed number.
CREATE TABLE endpoint_evidence (
    tenant_id uuid NOT NULL,
    mac macaddr NOT NULL,
    source text NOT NULL,
    key text NOT NULL,
    value text NOT NULL,
    at timestamptz NOT NULL,
    CONSTRAINT pk_endpoint_evidence PRIMARY KEY (tenant_id, mac, source, key)
);

-- Endpoints that the worker has to look at. Only ever appended to, so that nobody who writes here waits for anybody.
CREATE TABLE endpoint_work (
    id bigint CONSTRAINT pk_endpoint_work PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    tenant_id uuid NOT NULL,
    mac macaddr NOT NULL
);
CREATE INDEX ix_endpoint_work_tenant_id_id ON endpoint_work (tenant_id, id);

-- Which tenants the worker has to look at: it acts in the scope of one at a time.
CREATE FUNCTION tenants_with_endpoint_work() RETURNS SETOF uuid
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
    SELECT t.id FROM tenants t WHERE EXISTS (SELECT FROM endpoint_work w WHERE w.tenant_id = t.id)
        OR EXISTS (SELECT FROM endpoint_groups g WHERE g.tenant_id = t.id AND g.rule_cursor IS NOT NULL)
$$;

DO $$
DECLARE
    owned name;
BEGIN
    FOREACH owned IN ARRAY ARRAY['endpoint_evidence', 'endpoint_work']::name[] LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', owned);
        EXECUTE format(
            'CREATE POLICY tenant_scope ON %I TO admit_app, admit_worker '
            'USING (tenant_id = scope_tenant_id()) WITH CHECK (tenant_id = scope_tenant_id())',
            owned
        );
        EXECUTE format(
            'CREATE POLICY cell_scope ON %I TO admit_cell '
            'USING (tenant_id IN (SELECT s.tenant_id FROM slots s WHERE s.cell_id = scope_cell_id())) '
            'WITH CHECK (tenant_id IN (SELECT s.tenant_id FROM slots s WHERE s.cell_id = scope_cell_id()))',
            owned
        );
    END LOOP;
END
$$;

REVOKE EXECUTE ON FUNCTION tenants_with_endpoint_work(), record_group_psk_change() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION tenants_with_endpoint_work() TO admit_worker;
GRANT SELECT, DELETE ON endpoint_evidence TO admit_app, admit_worker;
GRANT SELECT, INSERT, DELETE ON endpoint_work TO admit_app, admit_worker;
GRANT SELECT, INSERT ON endpoint_evidence, endpoint_work TO admit_cell;
GRANT UPDATE (value, at) ON endpoint_evidence TO admit_cell;
GRANT UPDATE (ssid, method, identity, times) ON endpoint_sightings TO admit_cell;

-- What is there already is looked at once.
INSERT INTO endpoint_work (tenant_id, mac)
SELECT tenant_id, mac FROM endpoints UNION SELECT tenant_id, mac FROM endpoint_sightings;
