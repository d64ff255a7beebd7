-- Stores in log_sizes an estimate of each tenant's rows in a day's partition, and returns the
-- relation's bytes. Without a day: the rows outside daily partitions. NULL for a missing
-- relation.
--
-- It samples about 2,000 pages. An index finds the tenants that the sample misses, because
-- retention has to delete their rows too. A tenant's bytes are those of its live rows with a
-- share of the indexes.
CREATE OR REPLACE FUNCTION measure_log(which text, of_day date) RETURNS bigint
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = public, pg_temp SET timezone = 'UTC' AS $$
DECLARE
    place record;
    relation regclass;
    heap bigint;
    whole bigint;
    toast bigint;
    percent double precision;
    seen bigint;
BEGIN
    SELECT * INTO STRICT place FROM log_table(which);
    relation := to_regclass(place.parent || CASE
        WHEN NOT place.partitioned THEN '' WHEN of_day IS NULL THEN '_default' ELSE to_char(of_day, '_YYYYMMDD') END);
    IF relation IS NULL OR (of_day IS NOT NULL AND NOT place.partitioned) THEN
        RETURN NULL;
    END IF;
    PERFORM pg_advisory_xact_lock(hashtext('measure_log'));
    -- Before the sample: the next run measures later rows.
    seen := pg_stat_get_tuples_inserted(relation);
    heap := greatest(pg_relation_size(relation), 1);
    whole := pg_total_relation_size(relation);
    SELECT coalesce(pg_total_relation_size(nullif(reltoastrelid, 0)), 0) INTO toast FROM pg_class WHERE oid = relation;
    percent := CASE WHEN of_day IS NULL THEN 100 ELSE least(100, 100.0 * 2000 * 8192 / heap) END;
    DELETE FROM log_sizes s WHERE s.log = which AND CASE
        WHEN of_day IS NOT NULL THEN s.day = of_day
        ELSE NOT place.partitioned OR to_regclass(place.parent || to_char(s.day, '_YYYYMMDD')) IS NULL END;
    EXECUTE format(
        'INSERT INTO log_sizes (tenant_id, log, day, rows, bytes)
        SELECT s.tenant_id, $1, s.day, ceil(s.rows * 100 / $2),
            -- A page has a header of 24 bytes, and on average half a row unused at its end.
            ceil(s.bytes * 100 / $2 * $3 * 8192 / (8168 - least(sum(s.bytes) OVER () / sum(s.rows) OVER (), 2000) / 2))
        FROM (
            -- Aligned to 8 bytes, with a line pointer of 4 bytes.
            SELECT t.tenant_id, t.%1$I::date AS day, count(*) AS rows, sum(((pg_column_size(t) + 7) & ~7) + 4) AS bytes
            FROM %2$s t TABLESAMPLE SYSTEM (%3$s)
            WHERE t.%1$I > ''0001-01-02'' AND t.%1$I < ''9999-12-30''
            GROUP BY t.tenant_id, t.%1$I::date
        ) s WHERE EXISTS (SELECT FROM tenants WHERE id = s.tenant_id)',
        place.key, relation, percent
    ) USING which, percent, (whole - toast)::double precision / heap;
    IF percent < 100 THEN
        EXECUTE format(
            'INSERT INTO log_sizes (tenant_id, log, day, rows, bytes)
            WITH RECURSIVE there AS (
                (SELECT tenant_id FROM %1$s ORDER BY tenant_id LIMIT 1)
                UNION ALL
                SELECT next.tenant_id FROM there CROSS JOIN LATERAL (
                    SELECT t.tenant_id FROM %1$s t WHERE t.tenant_id > there.tenant_id ORDER BY t.tenant_id LIMIT 1
                ) next
            )
            SELECT there.tenant_id, $1, $2, 1, 0 FROM there
            WHERE EXISTS (SELECT FROM tenants WHERE id = there.tenant_id) ON CONFLICT DO NOTHING',
            relation
        ) USING which, of_day;
    END IF;
    INSERT INTO log_measures AS m (log, day, inserted, measured_at)
    VALUES (which, coalesce(of_day, '0001-01-01'), seen, now())
    ON CONFLICT (log, day) DO UPDATE SET inserted = excluded.inserted, measured_at = excluded.measured_at;
    RETURN whole;
END
$$;
GRANT EXECUTE ON FUNCTION measure_log TO admit_worker;

-- Whether a partition has rows of a tenant that did not release the day, or that holds it. A
-- cleared hold counts for another week. One index lookup for each tenant. Rows of deleted
-- tenants do not count.
CREATE OR REPLACE FUNCTION log_is_wanted(relation regclass, which text, of_day date, given_up uuid[]) RETURNS boolean
    LANGUAGE plpgsql STABLE SET search_path = public, pg_temp AS $$
DECLARE
    tenant uuid := '00000000-0000-0000-0000-000000000000';
BEGIN
    LOOP
        EXECUTE format('SELECT tenant_id FROM %s WHERE tenant_id > $1 ORDER BY tenant_id LIMIT 1', relation)
            INTO tenant USING tenant;
        IF tenant IS NULL THEN
            RETURN false;
        END IF;
        IF EXISTS (SELECT FROM tenants WHERE id = tenant) AND (
            NOT tenant = ANY (given_up) OR EXISTS (
                SELECT FROM retention_holds h
                WHERE h.tenant_id = tenant AND coalesce(h.cleared_at, 'infinity') > now() - interval '7 days'
                    AND coalesce(h.log, which) = which
                    AND of_day BETWEEN coalesce(h.first_day, '-infinity') AND coalesce(h.last_day, 'infinity')
            )
        ) THEN
            RETURN true;
        END IF;
    END LOOP;
END
$$;

-- All transactions before `xact` have ended. `origin` names this database.
CREATE OR REPLACE FUNCTION log_horizon(OUT xact bigint, OUT origin text)
    LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint, s.system_identifier || '/' || d.oid
    FROM pg_control_system() s, pg_database d WHERE d.datname = current_database()
$$;
GRANT EXECUTE ON FUNCTION log_horizon TO admit_worker;

-- Whether a transaction before `horizon` wrote a row, by its xmin.
--
-- A row keeps its transaction number modulo 2^32 when frozen. A transaction older than 2^31 may
-- count as younger, never the reverse. The caller ensures that the horizon itself is younger.
CREATE OR REPLACE FUNCTION is_written_before(row_xmin xid, horizon bigint) RETURNS boolean
    LANGUAGE sql STABLE PARALLEL RESTRICTED AS $$
    SELECT age(row_xmin) > age((horizon % 4294967296)::text::xid)
$$;
GRANT EXECUTE ON FUNCTION is_written_before TO admit_worker;

-- Drops the partition of a day that all its tenants released: 'dropped', or 'wanted', 'busy' or
-- 'missing'. For tenants in `exported`, it ignores rows from transactions before their entry in
-- `horizons`.
--
-- It locks the log briefly, with a short lock timeout, because later writers queue behind it.
-- Slow steps come before the lock. DETACH ... CONCURRENTLY needs no lock, but does not support
-- default partitions. The caller's transaction must end immediately.
CREATE OR REPLACE FUNCTION drop_log_partition(
    which text, of_day date, given_up uuid[], exported uuid[] DEFAULT '{}', horizons bigint[] DEFAULT '{}'
) RETURNS text
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER
    SET search_path = public, pg_temp SET timezone = 'UTC' SET lock_timeout = '100ms' AS $$
DECLARE
    place record;
    relation regclass;
    late boolean;
BEGIN
    SELECT * INTO STRICT place FROM log_table(which);
    -- Shippers still write to it, whatever the caller's clock says.
    IF (place.partitioned AND of_day < current_date - 1) IS NOT TRUE THEN
        RETURN 'wanted';
    END IF;
    -- A new hold takes this lock exclusively.
    PERFORM pg_advisory_xact_lock_shared(hashtext('retention_holds'));
    relation := to_regclass(place.parent || to_char(of_day, '_YYYYMMDD'));
    IF relation IS NULL THEN
        RETURN 'missing';
    END IF;
    -- It also removes deleted rows from the index, so that the check under the lock is fast.
    IF log_is_wanted(relation, which, of_day, given_up) THEN
        RETURN 'wanted';
    END IF;
    IF cardinality(exported) > 0 THEN
        EXECUTE format('LOCK TABLE ONLY %s IN SHARE MODE', relation);
        EXECUTE format(
            'SELECT EXISTS (
                SELECT FROM unnest($1, $2) e (tenant, horizon), %s t
                WHERE t.tenant_id = e.tenant AND NOT is_written_before(t.xmin, e.horizon)
            )', relation
        ) INTO late USING exported, horizons;
        IF late THEN
            RAISE EXCEPTION USING ERRCODE = 'AD001';
        END IF;
    END IF;
    DELETE FROM log_sizes s WHERE s.log = which AND s.day = of_day;
    DELETE FROM log_measures m WHERE m.log = which AND m.day = of_day;
    EXECUTE format('LOCK TABLE ONLY %I IN ACCESS EXCLUSIVE MODE', place.parent);
    EXECUTE format('LOCK TABLE ONLY %I, %s IN ACCESS EXCLUSIVE MODE NOWAIT', place.parent || '_default', relation);
    IF log_is_wanted(relation, which, of_day, given_up) THEN
        RAISE EXCEPTION USING ERRCODE = 'AD001';
    END IF;
    EXECUTE format('DROP TABLE %s', relation);
    RETURN 'dropped';
EXCEPTION
    WHEN lock_not_available THEN RETURN 'busy';
    WHEN SQLSTATE 'AD001' THEN RETURN 'wanted';
END
$$;
GRANT EXECUTE ON FUNCTION drop_log_partition TO admit_worker;
