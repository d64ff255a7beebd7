-- Attempts to sign in that failed, by hour, reason and where they came from: however many there are, of one hour 20
-- rows, and one more for each reason.
CREATE TABLE sign_in_failures (
    id bigint CONSTRAINT pk_sign_in_failures PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    -- The person or the single sign-on; zeros for addresses that are nobody's. Without a foreign key, so that an attempt
    -- costs the same whoever it is about.
    subject_id uuid NOT NULL,
    hour timestamptz NOT NULL,
    reason text NOT NULL,
    -- What counts as one; NULL for all that came from elsewhere, once there are many.
    source inet,
    count int NOT NULL DEFAULT 0,
    first_at timestamptz NOT NULL,
    last_at timestamptz NOT NULL,
    -- Of the last one.
    address inet,
    request_id text,
    user_agent text NOT NULL DEFAULT '',
    -- How many of them the audit log tells, and when it is to tell of the others.
    told int NOT NULL DEFAULT 0,
    told_at timestamptz,
    tell_at timestamptz,
    CONSTRAINT uq_sign_in_failures_subject_id UNIQUE NULLS NOT DISTINCT (subject_id, hour, reason, source)
);
CREATE INDEX ix_sign_in_failures_tell_at ON sign_in_failures (tell_at) WHERE tell_at IS NOT NULL;
CREATE INDEX ix_sign_in_failures_last_at ON sign_in_failures (last_at);
ALTER TABLE sign_in_failures ENABLE ROW LEVEL SECURITY;
CREATE POLICY person_scope ON sign_in_failures FOR SELECT TO admit_app USING (subject_id = scope_person_id());
CREATE POLICY working_off ON sign_in_failures TO admit_worker
    USING (scope_is_platform()) WITH CHECK (scope_is_platform());
GRANT SELECT ON sign_in_failures TO admit_app;
GRANT SELECT, UPDATE, DELETE ON sign_in_failures TO admit_worker;

-- In any scope; the same work whoever it is about.
CREATE FUNCTION note_sign_in_failure(
    subject uuid, why text, from_source inet, from_address inet, request text, agent text
) RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    moment timestamptz := clock_timestamp();
    this_hour timestamptz := date_trunc('hour', moment, 'UTC');
    rows_there int;
    is_there boolean;
    last_told timestamptz;
BEGIN
    SELECT count(*), coalesce(bool_or(f.reason = why AND f.source IS NOT DISTINCT FROM from_source), false), max(f.told_at)
        INTO rows_there, is_there, last_told
        FROM sign_in_failures f WHERE f.subject_id = subject AND f.hour = this_hour;
    INSERT INTO sign_in_failures AS f
        (subject_id, hour, reason, source, count, first_at, last_at, address, request_id, user_agent, tell_at)
    VALUES (
        subject, this_hour, why, CASE WHEN is_there OR rows_there < 20 THEN from_source END, 1, moment, moment,
        from_address, request, agent, coalesce(last_told + interval '10 minutes', moment)
    )
    ON CONFLICT ON CONSTRAINT uq_sign_in_failures_subject_id DO UPDATE SET
        count = f.count + 1, last_at = excluded.last_at, address = excluded.address, request_id = excluded.request_id,
        user_agent = excluded.user_agent, tell_at = coalesce(f.tell_at, excluded.tell_at);
END
$$;
REVOKE EXECUTE ON FUNCTION note_sign_in_failure(uuid, text, inet, inet, text, text) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION note_sign_in_failure(uuid, text, inet, inet, text, text) TO admit_app;

-- Where somebody is a member, it is told that he has signed in.
CREATE POLICY own_places ON audit_log FOR INSERT TO admit_app WITH CHECK (EXISTS (
    SELECT FROM memberships m
    WHERE m.person_id = scope_person_id()
        AND (m.msp_id = audit_log.msp_id OR m.tenant_id = audit_log.tenant_id)
        AND num_nonnulls(audit_log.msp_id, audit_log.tenant_id) = 1
));
