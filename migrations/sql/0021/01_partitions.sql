-- Makes the partition of a UTC day: 'made', or 'there' or 'busy'. The caller's transaction is to end at once.
--
-- Rows of the day may lie in the default partition, and more may come. Most are moved beside them; for the rest nobody may
-- write to the default partition, which is briefly waited for, because whoever comes after waits too. A row that is on its
-- way there meanwhile is refused when the partition is there (SQLSTATE 23514, of no constraint), and finds it at the next
-- attempt. (ATTACH, unlike CREATE ... PARTITION OF, lets inserts into the other days go on.)
CREATE FUNCTION make_log_partition(which text, of_day date) RETURNS text
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
    EXECUTE format('CREATE TABLE %I (LIKE %I INCLUDING DEFAULTS INCLUDING CONSTRAINTS INCLUDING INDEXES)', partition, place.parent);
    EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', partition);
    is_within := format('%I >= %L AND %1$I < %3$L', place.key, of_day::timestamptz, (of_day + 1)::timestamptz);
    -- Said while it is empty, so that nothing is read for it under the lock.
    EXECUTE format('ALTER TABLE %I ADD CONSTRAINT of_day CHECK (%s)', partition, is_within);
    move := format(
        'WITH strays AS (DELETE FROM %I WHERE %s RETURNING *) INSERT INTO %I SELECT * FROM strays',
        place.parent || '_default', is_within, partition
    );
    EXECUTE move;
    -- In the order in which partitions are dropped.
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
REVOKE EXECUTE ON FUNCTION make_log_partition(text, date) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION make_log_partition(text, date) TO admit_worker;

-- Those of several days, for where nobody writes yet: what it has locked stays so until all are made.
CREATE OR REPLACE FUNCTION ensure_log_partitions(first_day date, days int) RETURNS int
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = public, pg_temp SET timezone = 'UTC' AS $$
DECLARE
    earliest date := current_date - 7;
    latest date := current_date + 14;
BEGIN
    IF (first_day >= earliest AND days >= 1 AND first_day + (days - 1) <= latest) IS NOT TRUE THEN
        RAISE EXCEPTION 'log partitions are made for the days from % to %, not for % days from %', earliest, latest, days, first_day
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    RETURN (
        SELECT count(*) FILTER (WHERE make_log_partition(l.log, first_day + n) = 'made')
        FROM unnest(ARRAY['auth', 'accounting', 'sessions', 'usage']) l (log), generate_series(0, days - 1) n
    );
END
$$;
