-- Whether the platform, the MSP or the tenant requires two factors. Works in any scope.
CREATE OR REPLACE FUNCTION wants_two_factors(wanted_msp uuid, wanted_tenant uuid) RETURNS boolean
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
    SELECT EXISTS (
        SELECT FROM sign_in_rules r
        WHERE r.two_factors AND (
            num_nonnulls(r.msp_id, r.tenant_id) = 0 OR r.msp_id = wanted_msp OR r.tenant_id = wanted_tenant
        )
    )
$$;
GRANT EXECUTE ON FUNCTION wants_two_factors TO admit_app;

-- Counts an attempt before its check, so that parallel attempts gain nothing. Returns the
-- seconds to wait, or 0. A rejected attempt does not count.
--
-- Each key has `free` attempts without delay. Then the delay doubles from 2 s to 15 min. A key
-- expires after an hour without attempts. Each call deletes some expired keys, so the table
-- holds about one hour.
CREATE OR REPLACE FUNCTION begin_sign_in_attempt(keys bytea[], free int[]) RETURNS int
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    moment timestamptz := clock_timestamp();
    waits interval;
BEGIN
    DELETE FROM sign_in_attempts a WHERE a.key IN (
        SELECT old.key FROM sign_in_attempts old WHERE old.last_at < moment - interval '1 hour'
        ORDER BY old.last_at LIMIT 10 FOR UPDATE SKIP LOCKED
    );
    INSERT INTO sign_in_attempts (key, last_at) SELECT wanted, moment FROM unnest(keys) wanted ORDER BY wanted
        ON CONFLICT DO NOTHING;
    PERFORM FROM sign_in_attempts a WHERE a.key = ANY (keys) ORDER BY a.key FOR UPDATE;
    moment := clock_timestamp();
    SELECT max(a.blocked_until) - moment INTO waits FROM sign_in_attempts a WHERE a.key = ANY (keys);
    IF waits > interval '0' THEN
        RETURN ceil(extract(epoch FROM waits));
    END IF;
    UPDATE sign_in_attempts a SET
        count = counted.number,
        last_at = moment,
        blocked_until = CASE WHEN counted.number >= counted.most
            THEN moment + least(900, 2 * 2 ^ least(counted.number - counted.most, 10)) * interval '1 second' END
    FROM (
        SELECT old.key, wanted.most,
            CASE WHEN old.last_at < moment - interval '1 hour' THEN 1 ELSE old.count + 1 END AS number
        FROM sign_in_attempts old JOIN unnest(keys, free) AS wanted (key, most) USING (key)
    ) counted
    WHERE a.key = counted.key;
    RETURN 0;
END
$$;
GRANT EXECUTE ON FUNCTION begin_sign_in_attempt TO admit_app;

-- After a success: delete the `forgiven` keys, and subtract this attempt from the others.
CREATE OR REPLACE FUNCTION forgive_sign_in_attempt(keys bytea[], forgiven bytea[]) RETURNS void
    LANGUAGE sql SECURITY DEFINER SET search_path = public, pg_temp AS $$
    DELETE FROM sign_in_attempts a WHERE a.key = ANY (forgiven);
    UPDATE sign_in_attempts a SET count = greatest(a.count - 1, 0), blocked_until = NULL
        WHERE a.key = ANY (keys) AND a.key <> ALL (forgiven);
$$;
GRANT EXECUTE ON FUNCTION forgive_sign_in_attempt TO admit_app;

-- Whether this is the first use. Concurrent calls wait for the result.
CREATE OR REPLACE FUNCTION spend_challenge(wanted bytea, until timestamptz) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    DELETE FROM spent_challenges c WHERE c.digest IN (
        SELECT old.digest FROM spent_challenges old WHERE old.expires_at < now() - interval '1 hour'
        ORDER BY old.expires_at LIMIT 10 FOR UPDATE SKIP LOCKED
    );
    INSERT INTO spent_challenges (digest, expires_at) VALUES (wanted, until) ON CONFLICT DO NOTHING;
    RETURN FOUND;
END
$$;
GRANT EXECUTE ON FUNCTION spend_challenge TO admit_app;

-- In any scope. The work is the same for known and unknown subjects.
CREATE OR REPLACE FUNCTION note_sign_in_failure(
    subject uuid, why text, from_source inet, from_address inet, request text, agent text
) RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    moment timestamptz := clock_timestamp();
    this_hour timestamptz := date_trunc('hour', moment, 'UTC');
    rows_there int;
    is_there boolean;
    last_audited timestamptz;
BEGIN
    SELECT count(*), coalesce(bool_or(f.reason = why AND f.source IS NOT DISTINCT FROM from_source), false),
            max(f.audited_at)
        INTO rows_there, is_there, last_audited
        FROM sign_in_failures f WHERE f.subject_id = subject AND f.hour = this_hour;
    INSERT INTO sign_in_failures AS f
        (subject_id, hour, reason, source, count, first_at, last_at, address, request_id, user_agent, audit_due_at)
    VALUES (
        subject, this_hour, why, CASE WHEN is_there OR rows_there < 20 THEN from_source END, 1, moment, moment,
        from_address, request, agent, coalesce(last_audited + interval '10 minutes', moment)
    )
    ON CONFLICT ON CONSTRAINT uq_sign_in_failures_subject_id DO UPDATE SET
        count = f.count + 1, last_at = excluded.last_at, address = excluded.address, request_id = excluded.request_id,
        user_agent = excluded.user_agent, audit_due_at = coalesce(f.audit_due_at, excluded.audit_due_at);
END
$$;
GRANT EXECUTE ON FUNCTION note_sign_in_failure TO admit_app;

-- Whether a person has two factors of their own. The caller passes only members who accepted.
CREATE OR REPLACE FUNCTION has_two_factors(wanted uuid) RETURNS boolean
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
    SELECT EXISTS (SELECT FROM passkeys k WHERE k.person_id = wanted)
        OR EXISTS (
            SELECT FROM totps t JOIN people p ON p.id = t.person_id
            WHERE t.person_id = wanted AND t.confirmed_at IS NOT NULL AND p.password_hash <> ''
        )
$$;
GRANT EXECUTE ON FUNCTION has_two_factors TO admit_app;
