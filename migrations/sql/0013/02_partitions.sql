-- As before, with the tables of ended sessions and of usage among them.
CREATE OR REPLACE FUNCTION ensure_log_partitions(first_day date, days int) RETURNS int
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = public, pg_temp SET timezone = 'UTC' AS $$
DECLARE
    parent name;
    key name;
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
    FOR parent, key, day IN
        SELECT p.name, p.key, first_day + n
        FROM (VALUES ('auth_log', 'at'), ('accounting_log', 'at'), ('session_history', 'stopped_at'), ('usage_hours', 'hour'))
            AS p (name, key), generate_series(0, days - 1) n
    LOOP
        partition := parent || to_char(day, '_YYYYMMDD');
        CONTINUE WHEN to_regclass(partition::text) IS NOT NULL;
        -- ATTACH, unlike CREATE ... PARTITION OF, lets inserts into the other days go on.
        EXECUTE format('CREATE TABLE %I (LIKE %I INCLUDING DEFAULTS INCLUDING CONSTRAINTS INCLUDING INDEXES)', partition, parent);
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', partition);
        EXECUTE format(
            'WITH strays AS (DELETE FROM %1$I WHERE %4$I >= %2$L AND %4$I < %3$L RETURNING *) INSERT INTO %5$I SELECT * FROM strays',
            parent || '_default', day::timestamptz, (day + 1)::timestamptz, key, partition
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
SELECT ensure_log_partitions((now() AT TIME ZONE 'UTC')::date - 1, 9);
