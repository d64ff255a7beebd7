-- Of a standing export: its files have the rows that transactions before `rows_before` have written, in the database
-- called `origin`: after a restore, transactions count anew.
ALTER TABLE export_jobs ADD rows_before bigint, ADD origin text NOT NULL DEFAULT '',
    -- Since when the database has none of its rows any more: its files are the only copy.
    ADD rows_gone_at timestamptz;
GRANT UPDATE (standing) ON export_jobs TO admit_app;
ALTER TABLE retention_settings DROP export_wait_days;

-- Transactions before the first of the two have all ended. The second is the name of this database.
CREATE FUNCTION log_horizon(OUT xact bigint, OUT origin text)
    LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint, s.system_identifier || '/' || d.oid
    FROM pg_control_system() s, pg_database d WHERE d.datname = current_database()
$$;
REVOKE EXECUTE ON FUNCTION log_horizon() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION log_horizon() TO admit_worker;

-- Whether a row was written by a transaction before `horizon`, given its xmin. A row keeps the number of its transaction,
-- modulo 2^32, when it is frozen. One that is older than 2^31 transactions may be taken for a younger one, never the
-- other way round as long as the horizon itself is younger than that, which the caller sees to.
CREATE FUNCTION is_written_before(row_xmin xid, horizon bigint) RETURNS boolean
    LANGUAGE sql STABLE PARALLEL RESTRICTED AS $$
    SELECT age(row_xmin) > age((horizon % 4294967296)::text::xid)
$$;
REVOKE EXECUTE ON FUNCTION is_written_before(xid, bigint) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION is_written_before(xid, bigint) TO admit_worker;

-- As before; of tenants in `exported`, rows may go that were written before the transaction at the same place of
-- `horizons`. While that is looked after, nobody can write to the day: whoever brings late rows of it waits.
DROP FUNCTION drop_log_partition(text, date, uuid[]);
CREATE FUNCTION drop_log_partition(
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
    -- Still written to, whatever the time may be where the caller is.
    IF (place.partitioned AND of_day < current_date - 1) IS NOT TRUE THEN
        RETURN 'wanted';
    END IF;
    -- Who sets a hold has this lock alone.
    PERFORM pg_advisory_xact_lock_shared(hashtext('retention_holds'));
    relation := to_regclass(place.parent || to_char(of_day, '_YYYYMMDD'));
    IF relation IS NULL THEN
        RETURN 'missing';
    END IF;
    -- It also makes the index forget the rows that were deleted, so that it is quick under the lock.
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
REVOKE EXECUTE ON FUNCTION drop_log_partition(text, date, uuid[], uuid[], bigint[]) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION drop_log_partition(text, date, uuid[], uuid[], bigint[]) TO admit_worker;
