-- Logs: append-only, a partition for each UTC day. No foreign keys: rows come late, in bulk, and outlive what they name.

CREATE SEQUENCE auth_log_id_seq AS bigint;
CREATE TABLE auth_log (
    at timestamptz NOT NULL,
    id bigint NOT NULL DEFAULT nextval('auth_log_id_seq'),
    tenant_id uuid NOT NULL,
    cell_id int NOT NULL,
    site_id uuid,
    nas_id uuid,
    nas_address inet,
    nas_identifier text NOT NULL DEFAULT '',
    nas_port text NOT NULL DEFAULT '',
    mac macaddr,
    identity text NOT NULL DEFAULT '',
    method text NOT NULL,
    permitted boolean NOT NULL,
    reason text NOT NULL,
    detail text NOT NULL DEFAULT '',
    rule_id text NOT NULL DEFAULT '',
    rule_name text NOT NULL DEFAULT '',
    policy_id uuid,
    policy_version int NOT NULL DEFAULT 0,
    vlan text NOT NULL DEFAULT '',
    reply json NOT NULL DEFAULT '[]',
    certificate_serial text NOT NULL DEFAULT '',
    tls_version text NOT NULL DEFAULT '',
    resumed boolean NOT NULL DEFAULT false,
    request json NOT NULL DEFAULT '{}',
    module_microseconds int NOT NULL DEFAULT 0,
    suppressed int NOT NULL DEFAULT 0,
    -- Read backwards, it lists a tenant's rows from the newest.
    CONSTRAINT pk_auth_log PRIMARY KEY (tenant_id, at, id)
) PARTITION BY RANGE (at);
ALTER SEQUENCE auth_log_id_seq OWNED BY auth_log.id;
CREATE INDEX ix_auth_log_tenant_id_mac_at ON auth_log (tenant_id, mac, at DESC);

CREATE SEQUENCE accounting_log_id_seq AS bigint;
CREATE TABLE accounting_log (
    at timestamptz NOT NULL,
    id bigint NOT NULL DEFAULT nextval('accounting_log_id_seq'),
    tenant_id uuid NOT NULL,
    cell_id int NOT NULL,
    site_id uuid,
    nas_id uuid,
    nas_address inet,
    status_type text NOT NULL,
    session_id text NOT NULL DEFAULT '',
    mac macaddr,
    identity text NOT NULL DEFAULT '',
    session_seconds bigint,
    input_octets bigint,
    output_octets bigint,
    terminate_cause text NOT NULL DEFAULT '',
    attributes json NOT NULL DEFAULT '[]',
    -- Read backwards, it lists a tenant's rows from the newest.
    CONSTRAINT pk_accounting_log PRIMARY KEY (tenant_id, at, id)
) PARTITION BY RANGE (at);
ALTER SEQUENCE accounting_log_id_seq OWNED BY accounting_log.id;

-- Stray times (a cell's clock is wrong, partition maintenance stood still) must not stop the journal.
CREATE TABLE auth_log_default PARTITION OF auth_log DEFAULT;
CREATE TABLE accounting_log_default PARTITION OF accounting_log DEFAULT;

-- Makes the partitions of the UTC days from `first_day` that are missing; returns how many it made. Any other day than
-- those around today is a mistake, and there is no end of them.
CREATE FUNCTION ensure_log_partitions(first_day date, days int) RETURNS int
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = public, pg_temp SET timezone = 'UTC' AS $$
DECLARE
    parent name;
    partition name;
    day date;
    made int := 0;
    earliest date := current_date - 7;
    latest date := current_date + 14;
BEGIN
    IF (first_day >= earliest AND days >= 1 AND first_day + (days - 1) <= latest) IS NOT TRUE THEN
        RAISE EXCEPTION 'log partitions are made for the days from % to %, not for % days from %', earliest, latest, days, first_day
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    PERFORM pg_advisory_xact_lock(hashtext('ensure_log_partitions'));
    FOR parent, day IN
        SELECT p, first_day + n FROM unnest(ARRAY['auth_log', 'accounting_log']::name[]) p, generate_series(0, days - 1) n
    LOOP
        partition := parent || to_char(day, '_YYYYMMDD');
        CONTINUE WHEN to_regclass(partition::text) IS NOT NULL;
        -- ATTACH, unlike CREATE ... PARTITION OF, lets inserts into the other days go on.
        EXECUTE format('CREATE TABLE %I (LIKE %I INCLUDING DEFAULTS INCLUDING CONSTRAINTS INCLUDING INDEXES)', partition, parent);
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', partition);
        EXECUTE format(
            'WITH strays AS (DELETE FROM %I WHERE at >= %L AND at < %L RETURNING *) INSERT INTO %I SELECT * FROM strays',
            parent || '_default', day::timestamptz, (day + 1)::timestamptz, partition
        );
        EXECUTE format(
            'ALTER TABLE %I ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)',
            parent, partition, day::timestamptz, (day + 1)::timestamptz
        );
        made := made + 1;
    END LOOP;
    RETURN made;
END
$$;

CREATE TABLE sessions (
    id bigint CONSTRAINT pk_sessions PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    tenant_id uuid NOT NULL,
    nas_key text NOT NULL,
    session_id text NOT NULL,
    mac_key text NOT NULL,
    started_at timestamptz NOT NULL,
    site_id uuid,
    nas_id uuid,
    nas_address inet,
    mac macaddr,
    identity text NOT NULL DEFAULT '',
    framed_ip inet,
    updated_at timestamptz NOT NULL,
    stopped_at timestamptz,
    session_seconds bigint,
    input_octets bigint,
    output_octets bigint,
    terminate_cause text NOT NULL DEFAULT '',
    flags text[] NOT NULL DEFAULT '{}',
    CONSTRAINT uq_sessions_identity UNIQUE (tenant_id, nas_key, session_id, mac_key, started_at)
) WITH (fillfactor = 70);
CREATE INDEX ix_sessions_live ON sessions (tenant_id, started_at DESC, id DESC) WHERE stopped_at IS NULL;

CREATE TABLE endpoint_sightings (
    tenant_id uuid NOT NULL,
    mac macaddr NOT NULL,
    last_seen_at timestamptz NOT NULL,
    site_id uuid,
    nas_id uuid,
    nas_port text NOT NULL DEFAULT '',
    permitted boolean NOT NULL,
    CONSTRAINT pk_endpoint_sightings PRIMARY KEY (tenant_id, mac)
) WITH (fillfactor = 70);
