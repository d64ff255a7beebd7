-- Whether a partition has a row of a tenant that did not give the day up, or has a hold on it. One look into an index for
-- each tenant. Rows of tenants that are gone are nobody's.
CREATE FUNCTION log_is_wanted(relation regclass, which text, of_day date, given_up uuid[]) RETURNS boolean
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
                WHERE h.tenant_id = tenant AND h.cleared_at IS NULL AND coalesce(h.log, which) = which
                    AND of_day BETWEEN coalesce(h.first_day, '-infinity') AND coalesce(h.last_day, 'infinity')
            )
        ) THEN
            RETURN true;
        END IF;
    END LOOP;
END
$$;
REVOKE EXECUTE ON FUNCTION log_is_wanted(regclass, text, date, uuid[]) FROM PUBLIC;

-- Drops the partition of a day that all who have rows in it gave up: 'dropped', or 'wanted', 'busy' or 'missing'.
--
-- For a moment nobody can write to the log, so the lock is waited for briefly, because whoever comes after waits too, and
-- everything that takes time comes before it. (DETACH ... CONCURRENTLY does without the lock, but not beside a default
-- partition.) The caller's transaction is to end at once.
CREATE FUNCTION drop_log_partition(which text, of_day date, given_up uuid[]) RETURNS text
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER
    SET search_path = public, pg_temp SET timezone = 'UTC' SET lock_timeout = '100ms' AS $$
DECLARE
    place record;
    relation regclass;
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
REVOKE EXECUTE ON FUNCTION drop_log_partition(text, date, uuid[]) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION drop_log_partition(text, date, uuid[]) TO admit_worker;
