-- Estimates into log_sizes what each tenant has in the partition of a day or, of no day, in what has no partition of its
-- own: strays, and coa_requests. Returns the bytes of the relation, NULL where there is none.
--
-- Of a partition some 2,000 pages are read, or all where there are fewer; tenants that are not met there are found by the
-- index, because their rows are to be found when they have to go. A tenant's bytes are those of its live rows, with their
-- part of the indexes: what was deleted costs nobody anything.
CREATE FUNCTION measure_log(which text, of_day date) RETURNS bigint
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
    -- Before the rows are looked at: what comes meanwhile is measured at the next turn.
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
            -- Of a page 24 bytes are its header, and at its end half a row does not fit on average.
            ceil(s.bytes * 100 / $2 * $3 * 8192 / (8168 - least(sum(s.bytes) OVER () / sum(s.rows) OVER (), 2000) / 2))
        FROM (
            -- Aligned to 8 bytes, and with a line pointer of 4 in the page.
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
REVOKE EXECUTE ON FUNCTION measure_log(text, date) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION measure_log(text, date) TO admit_worker;
