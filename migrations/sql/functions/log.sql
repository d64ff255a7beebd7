-- Creates the partitions of several days. Only for empty databases: it holds its locks until all
-- exist.
CREATE OR REPLACE FUNCTION ensure_log_partitions(first_day date, days int) RETURNS int
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = public, pg_temp SET timezone = 'UTC' AS $$
DECLARE
    earliest date := current_date - 7;
    latest date := current_date + 14;
BEGIN
    IF (first_day >= earliest AND days >= 1 AND first_day + (days - 1) <= latest) IS NOT TRUE THEN
        RAISE EXCEPTION 'log partitions are made for the days from % to %, not for % days from %',
            earliest, latest, days, first_day
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    RETURN (
        SELECT count(*) FILTER (WHERE make_log_partition(l.log, first_day + n) = 'made')
        FROM unnest(ARRAY['auth', 'accounting', 'sessions', 'usage']) l (log), generate_series(0, days - 1) n
    );
END
$$;
GRANT EXECUTE ON FUNCTION ensure_log_partitions TO admit_worker;

-- The table of a log, its time column, and whether it has daily partitions.
CREATE OR REPLACE FUNCTION log_table(log text, OUT parent name, OUT key name, OUT partitioned boolean)
    LANGUAGE sql IMMUTABLE STRICT AS $$
    SELECT l.parent::name, l.key::name, l.parent <> 'coa_requests'
    FROM (VALUES
        ('auth', 'auth_log', 'at'),
        ('accounting', 'accounting_log', 'at'),
        ('sessions', 'session_history', 'stopped_at'),
        ('usage', 'usage_hours', 'hour'),
        ('coa', 'coa_requests', 'created_at')
    ) AS l (log, parent, key) WHERE l.log = log_table.log
$$;
GRANT EXECUTE ON FUNCTION log_table TO admit_worker;

-- Creates the partition of a UTC day: 'made', or 'there' or 'busy'. The caller's transaction
-- must end immediately.
--
-- The default partition may have rows of the day, and more may arrive. Most are moved without a
-- lock. The rest needs an exclusive lock on the default partition, with a short lock timeout,
-- because later writers queue behind it. A concurrent insert of such a row fails (SQLSTATE
-- 23514, without a constraint) and succeeds when retried. ATTACH does not block inserts into
-- other days, unlike CREATE ... PARTITION OF.
CREATE OR REPLACE FUNCTION make_log_partition(which text, of_day date) RETURNS text
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER
    SET search_path = public, pg_temp SET timezone = 'UTC' SET lock_timeout = '500ms' AS $$
DECLARE
    place record;
    partition name;
    is_within text;
    move text;
BEGIN
    SELECT * INTO STRICT place FROM log_table(which);
    IF (place.partitioned AND of_day BETWEEN current_date - 7 AND current_date + 14) IS NOT TRUE THEN
        RAISE EXCEPTION 'log partitions are made for the days from % to %, not for % of %',
            current_date - 7, current_date + 14, of_day, which
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    PERFORM pg_advisory_xact_lock(hashtext('make_log_partition'));
    partition := place.parent || to_char(of_day, '_YYYYMMDD');
    IF to_regclass(partition::text) IS NOT NULL THEN
        RETURN 'there';
    END IF;
    EXECUTE format('CREATE TABLE %I (LIKE %I INCLUDING DEFAULTS INCLUDING CONSTRAINTS INCLUDING INDEXES)', partition,
        place.parent);
    EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', partition);
    is_within := format('%I >= %L AND %1$I < %3$L', place.key, of_day::timestamptz, (of_day + 1)::timestamptz);
    -- Added while the table is empty, so that ATTACH need not read it under the lock.
    EXECUTE format('ALTER TABLE %I ADD CONSTRAINT of_day CHECK (%s)', partition, is_within);
    move := format(
        'WITH strays AS (DELETE FROM %I WHERE %s RETURNING *) INSERT INTO %I SELECT * FROM strays',
        place.parent || '_default', is_within, partition
    );
    EXECUTE move;
    -- In the same order as drop_log_partition.
    EXECUTE format('LOCK TABLE ONLY %I IN SHARE UPDATE EXCLUSIVE MODE', place.parent);
    EXECUTE format('LOCK TABLE ONLY %I IN ACCESS EXCLUSIVE MODE', place.parent || '_default');
    EXECUTE move;
    EXECUTE format(
        'ALTER TABLE %I ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)',
        place.parent, partition, of_day::timestamptz, (of_day + 1)::timestamptz
    );
    EXECUTE format('ALTER TABLE %I DROP CONSTRAINT of_day', partition);
    RETURN 'made';
EXCEPTION
    WHEN lock_not_available THEN RETURN 'busy';
END
$$;
GRANT EXECUTE ON FUNCTION make_log_partition TO admit_worker;

-- Those of the tenants whose authentication log has a MAC address, for the search (search_endpoints). A sighting shows
-- this without a look at each partition. Deletion of a device also deletes its sighting, so the log is read too, from
-- `log_since`: a shorter period, because it takes an index scan for each tenant and day.
CREATE OR REPLACE FUNCTION search_log_mac(
    tenants uuid[], wanted macaddr, since timestamptz, log_since timestamptz, until timestamptz, most int
) RETURNS SETOF uuid
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = public, pg_temp SET plan_cache_mode = force_custom_plan AS $$
BEGIN
    tenants := tenants_in_scope(tenants);
    RETURN QUERY
    (
        SELECT t.id FROM unnest(tenants) t (id) CROSS JOIN LATERAL (
            SELECT FROM endpoint_sightings s
            WHERE s.tenant_id = t.id AND s.mac = wanted AND s.last_seen_at >= since AND s.permitted IS NOT NULL LIMIT 1
        ) s
    )
    UNION
    (
        SELECT t.id FROM unnest(tenants) t (id) CROSS JOIN LATERAL (
            SELECT FROM auth_log a
            WHERE a.tenant_id = t.id AND a.mac = wanted AND a.at >= log_since AND a.at < until LIMIT 1
        ) a
    )
    LIMIT most;
END
$$;
GRANT EXECUTE ON FUNCTION search_log_mac TO admit_app;

-- The newest decision of a period about each of these devices, users and certificates: the n-th is of the n-th tenant,
-- and has a MAC address, a user name in lower case, or a serial number (hexadecimal).
CREATE OR REPLACE FUNCTION last_decisions(
    of_tenants uuid[], macs macaddr[], identities text[], serials text[], since timestamptz, until timestamptz
) RETURNS TABLE (
    n bigint, id bigint, at timestamptz, permitted boolean, verdict text, reason text, vlan text, nas text
)
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = public, pg_temp SET plan_cache_mode = force_custom_plan AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT h.n, a.id, a.at, a.permitted, a.verdict, a.reason, a.vlan,
        coalesce(s.name, nullif(a.nas_identifier, ''), host(a.nas_address), '')
    FROM unnest(of_tenants, macs, identities, serials) WITH ORDINALITY h (tenant_id, mac, identity, serial, n)
    CROSS JOIN LATERAL (
        (
            SELECT a.* FROM auth_log a
            WHERE a.tenant_id = h.tenant_id AND a.mac = h.mac AND a.at >= since AND a.at < until
            ORDER BY a.at DESC LIMIT 1
        )
        UNION ALL
        (
            SELECT a.* FROM auth_log a
            WHERE a.tenant_id = h.tenant_id AND a.identity_key = h.identity AND a.identity_key <> ''
                AND a.at >= since AND a.at < until
            ORDER BY a.at DESC, a.id DESC LIMIT 1
        )
        UNION ALL
        (
            SELECT a.* FROM auth_log a
            WHERE a.tenant_id = h.tenant_id AND a.certificate_serial = h.serial AND a.certificate_serial <> ''
                AND a.at >= since AND a.at < until
            ORDER BY a.at DESC LIMIT 1
        )
    ) a
    LEFT JOIN LATERAL (SELECT s.name FROM nases s WHERE s.id = a.nas_id LIMIT 1) s ON true
    WHERE h.tenant_id = ANY (tenants_in_scope(of_tenants));
END
$$;
GRANT EXECUTE ON FUNCTION last_decisions TO admit_app;
