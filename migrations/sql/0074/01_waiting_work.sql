-- The jobs for which something waits, as each of them asks for it itself: one question in each second instead of one of
-- each job, all through the broker. Which it is of all that waits is the job's affair.
--
-- A queue whose table is locked is looked at a second later, and one that cannot be asked is left to its job, which tells
-- what is wrong: neither keeps the others waiting.
CREATE FUNCTION waiting_work(list_every interval) RETURNS SETOF text
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = public, pg_temp SET lock_timeout = '100ms' AS $$
DECLARE
    job text;
    question text;
    waits boolean;
BEGIN
    FOR job, question IN SELECT * FROM (VALUES
        ('audit.seal',
            'EXISTS (SELECT FROM audit_unsealed u WHERE NOT u.held)'
            -- Perhaps it is mended.
            ' OR EXISTS (SELECT FROM audit_chains c WHERE c.broken)'
            ' OR NOT EXISTS (SELECT FROM audit_keys)'),
        ('sign_in.write_mails', 'EXISTS (SELECT FROM account_mails)'),
        ('sign_in.tell', 'EXISTS (SELECT FROM sign_in_failures f WHERE f.tell_at <= now())'),
        ('endpoints.tell_expired', 'EXISTS (SELECT FROM endpoint_expiries x WHERE x.valid_until <= now())'),
        ('mail.send', 'EXISTS (SELECT FROM mails m WHERE m.state = ''queued'' AND m.due_at <= now())'),
        ('jobs.run', 'EXISTS (SELECT FROM jobs j WHERE j.state IN (''queued'', ''running'') AND j.due_at <= now())'),
        ('redecisions.advance', 'EXISTS (SELECT FROM tenants_to_redecide()) OR redecision_marks_wait()'),
        ('certificates.publish', 'EXISTS (SELECT FROM status_work(now(), $1))'),
        ('endpoints.enrich', 'EXISTS (SELECT FROM tenants_with_endpoint_work())'),
        ('self_tests.run', 'EXISTS (SELECT FROM waiting_self_tests(1))'),
        ('exports.run', 'EXISTS (SELECT FROM waiting_export())'),
        ('feeds.deliver', 'EXISTS (SELECT FROM feeds_due()) OR EXISTS ('
            -- It was restored from a dump (restart_restored_feeds).
            'SELECT FROM feeds f WHERE pg_snapshot_xmax(f.done::pg_snapshot) > pg_snapshot_xmax(pg_current_snapshot()))')
    ) AS asked
    LOOP
        BEGIN
            EXECUTE 'SELECT ' || question INTO waits USING list_every;
        EXCEPTION
            WHEN lock_not_available THEN waits := false;
            WHEN OTHERS THEN
                RAISE WARNING '% cannot be asked whether it waits: %', job, SQLERRM;
                waits := true;
        END;
        IF waits THEN
            RETURN NEXT job;
        END IF;
    END LOOP;
END
$$;

-- Whether collect_redecision_marks() has something to look at.
CREATE FUNCTION redecision_marks_wait() RETURNS boolean
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    before pg_snapshot;
    last timestamptz;
BEGIN
    SELECT p.position, p.looked_at INTO before, last FROM redecision_position p;
    -- A position that does not move on makes every look dearer.
    RETURN before IS NULL OR last < now() - interval '1 minute'
        OR pg_snapshot_xmax(before) > pg_snapshot_xmax(pg_current_snapshot())
        OR EXISTS (
            SELECT FROM replica_changes c
            WHERE c.xact >= pg_snapshot_xmin(before) AND NOT pg_visible_in_snapshot(c.xact, before)
        )
        OR EXISTS (
            SELECT FROM redecision_settings s
            WHERE s.every_minutes > 0 AND s.mode <> 'off'
                AND s.looked_at <= now() - s.every_minutes * interval '1 minute'
        );
END
$$;
REVOKE EXECUTE ON FUNCTION waiting_work(interval), redecision_marks_wait() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION waiting_work(interval) TO admit_worker;
