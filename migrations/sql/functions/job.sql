-- Names of the tasks that have work. One statement each second replaces a message per task.
--
-- A locked table is checked a second later. A task whose check fails is listed, so that it reports the error. Neither
-- delays the other tasks.
CREATE OR REPLACE FUNCTION waiting_work(list_every interval) RETURNS SETOF text
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = public, pg_temp SET lock_timeout = '100ms' AS $$
DECLARE
    job text;
    condition text;
    waits boolean;
BEGIN
    FOR job, condition IN SELECT * FROM (VALUES
        ('audit.seal',
            'EXISTS (SELECT FROM audit_unsealed u WHERE NOT u.held)'
            -- The chain may be repaired.
            ' OR EXISTS (SELECT FROM audit_chains c WHERE c.broken)'
            ' OR NOT EXISTS (SELECT FROM audit_keys)'),
        ('sign_in.write_mails', 'EXISTS (SELECT FROM account_mails)'),
        ('sign_in.audit_failures', 'EXISTS (SELECT FROM sign_in_failures f WHERE f.audit_due_at <= now())'),
        ('endpoints.record_expired', 'EXISTS (SELECT FROM endpoint_expiries x WHERE x.valid_until <= now())'),
        ('mail.send', 'EXISTS (SELECT FROM mails m WHERE m.state = ''queued'' AND m.due_at <= now())'),
        ('jobs.enqueue',
            'EXISTS (SELECT FROM jobs j WHERE j.state IN (''queued'', ''running'') AND j.due_at <= now())'),
        ('redecisions.advance', 'EXISTS (SELECT FROM tenants_to_redecide()) OR redecision_marks_wait()'),
        ('certificates.publish', 'EXISTS (SELECT FROM status_work(now(), $1))'),
        ('endpoints.enrich', 'EXISTS (SELECT FROM tenants_with_endpoint_work())'),
        ('self_tests.run', 'EXISTS (SELECT FROM waiting_self_tests(1))'),
        ('exports.run', 'EXISTS (SELECT FROM waiting_export())'),
        ('feeds.deliver', 'EXISTS (SELECT FROM feeds_due()) OR EXISTS ('
            -- The database was restored from a dump (restart_restored_feeds).
            'SELECT FROM feeds f
                WHERE pg_snapshot_xmax(f.done::pg_snapshot) > pg_snapshot_xmax(pg_current_snapshot()))')
    ) AS checks
    LOOP
        BEGIN
            EXECUTE 'SELECT ' || condition INTO waits USING list_every;
        EXCEPTION
            WHEN lock_not_available THEN waits := false;
            WHEN OTHERS THEN
                RAISE WARNING 'cannot check the work of %: %', job, SQLERRM;
                waits := true;
        END;
        IF waits THEN
            RETURN NEXT job;
        END IF;
    END LOOP;
END
$$;
GRANT EXECUTE ON FUNCTION waiting_work TO admit_worker;
