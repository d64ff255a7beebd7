-- How often somebody has tried, by the SHA-256 of who and from where; reached through the functions below alone.
CREATE TABLE sign_in_attempts (
    key bytea CONSTRAINT pk_sign_in_attempts PRIMARY KEY,
    count int NOT NULL DEFAULT 0,
    last_at timestamptz NOT NULL,
    blocked_until timestamptz
);
CREATE INDEX ix_sign_in_attempts_last_at ON sign_in_attempts (last_at);
ALTER TABLE sign_in_attempts ENABLE ROW LEVEL SECURITY;

-- What was good for one use and had it.
CREATE TABLE spent_challenges (
    digest bytea CONSTRAINT pk_spent_challenges PRIMARY KEY,
    expires_at timestamptz NOT NULL
);
CREATE INDEX ix_spent_challenges_expires_at ON spent_challenges (expires_at);
ALTER TABLE spent_challenges ENABLE ROW LEVEL SECURITY;

-- Counts an attempt before it is looked at, so that many at once are no more than one after the other: the seconds to
-- wait, in which nothing is counted, or 0. `free` attempts of each key cost nothing; then the delay doubles from 2 s to
-- 15 min. An hour of silence is forgotten, and each call clears some of what is: the table holds one hour at most.
CREATE FUNCTION begin_sign_in_attempt(keys bytea[], free int[]) RETURNS int
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

-- It was the person: `forgiven` keys are forgotten, of the others this attempt is.
CREATE FUNCTION forgive_sign_in_attempt(keys bytea[], forgiven bytea[]) RETURNS void
    LANGUAGE sql SECURITY DEFINER SET search_path = public, pg_temp AS $$
    DELETE FROM sign_in_attempts a WHERE a.key = ANY (forgiven);
    UPDATE sign_in_attempts a SET count = greatest(a.count - 1, 0), blocked_until = NULL
        WHERE a.key = ANY (keys) AND a.key <> ALL (forgiven);
$$;

-- Whether this is its first use; who asks at the same time waits for the answer.
CREATE FUNCTION spend_challenge(wanted bytea, until timestamptz) RETURNS boolean
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
REVOKE EXECUTE ON FUNCTION begin_sign_in_attempt(bytea[], int[]), forgive_sign_in_attempt(bytea[], bytea[]),
    spend_challenge(bytea, timestamptz) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION begin_sign_in_attempt(bytea[], int[]), forgive_sign_in_attempt(bytea[], bytea[]),
    spend_challenge(bytea, timestamptz) TO admit_app;
