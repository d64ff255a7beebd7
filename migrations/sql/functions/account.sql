-- The account of an address. ensure_person creates a missing one, so an inviter does not learn
-- whether it existed.
CREATE OR REPLACE FUNCTION person_of_email(wanted text) RETURNS uuid
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
    SELECT p.id FROM people p WHERE p.email = lower(wanted)
$$;
GRANT EXECUTE ON FUNCTION person_of_email TO admit_app;

CREATE OR REPLACE FUNCTION ensure_person(wanted text, called text) RETURNS uuid
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    found uuid;
BEGIN
    INSERT INTO people (email, name) VALUES (lower(wanted), called) ON CONFLICT (email) DO NOTHING;
    SELECT p.id INTO STRICT found FROM people p WHERE p.email = lower(wanted);
    RETURN found;
END
$$;
GRANT EXECUTE ON FUNCTION ensure_person TO admit_app, admit_worker;

-- MSPs and tenants of the person in scope, in key order. After a sign-in by an owner's provider,
-- only memberships of that owner.
CREATE OR REPLACE FUNCTION places_of_person(only_msp uuid, only_tenant uuid, after text, most int)
    RETURNS TABLE (key text, kind text, id uuid, msp_id uuid, slug text, name text, status text)
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
    WITH mine AS (
        SELECT m.* FROM memberships m
        WHERE m.person_id = scope_person_id()
            AND (num_nonnulls(only_msp, only_tenant) = 0 OR m.msp_id = only_msp OR m.tenant_id = only_tenant)
    ), everywhere AS (
        SELECT EXISTS (SELECT FROM mine WHERE num_nonnulls(mine.msp_id, mine.tenant_id) = 0) AS so
    ), reached AS (
        SELECT mine.* FROM mine WHERE mine.msp_id IS NOT NULL AND NOT is_suspended_msp(mine.msp_id)
    ), places AS (
        SELECT p.slug || '/msp' AS key, 'msp' AS kind, p.id, p.id AS msp_id, p.slug, p.name, p.status
        FROM msps p
        WHERE (SELECT so FROM everywhere) OR p.id IN (SELECT mine.msp_id FROM mine)
        UNION ALL
        SELECT t.slug || '/tenant', 'tenant', t.id, t.msp_id, t.slug, t.name, t.status FROM tenants t
        WHERE (SELECT so FROM everywhere)
            OR t.msp_id IN (SELECT reached.msp_id FROM reached WHERE NOT reached.has_chosen)
            OR t.id IN (SELECT mine.tenant_id FROM mine)
            OR t.id IN (
                SELECT c.tenant_id FROM membership_tenants c JOIN reached ON reached.id = c.membership_id
                WHERE reached.msp_id = t.msp_id
            )
    )
    SELECT places.* FROM places WHERE places.key COLLATE "C" > after ORDER BY places.key COLLATE "C" LIMIT most
$$;
GRANT EXECUTE ON FUNCTION places_of_person TO admit_app;

-- The person in scope signed in through these memberships.
CREATE OR REPLACE FUNCTION accept_memberships(wanted uuid[]) RETURNS void
    LANGUAGE sql SECURITY DEFINER SET search_path = public, pg_temp AS $$
    UPDATE memberships m SET accepted_at = now()
        WHERE m.id = ANY (wanted) AND m.person_id = scope_person_id() AND m.accepted_at IS NULL
$$;
GRANT EXECUTE ON FUNCTION accept_memberships TO admit_app;

-- Which of these people can sign in at the owner, by their own means or its provider. If the
-- provider is mandatory, other means do not count. The caller passes only members who accepted,
-- so the owner learns nothing about others.
CREATE OR REPLACE FUNCTION able_to_sign_in(wanted uuid[], of_msp uuid, of_tenant uuid) RETURNS TABLE (person_id uuid)
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
    WITH rule AS (
        SELECT r.local_person_id FROM sign_in_rules r
        WHERE r.sign_on_only AND (r.msp_id = of_msp OR r.tenant_id = of_tenant)
    )
    SELECT p.id FROM people p
    WHERE p.id = ANY (wanted) AND p.status = 'active' AND (
        (NOT EXISTS (SELECT FROM rule) AND (
            p.password_hash <> '' OR EXISTS (SELECT FROM passkeys k WHERE k.person_id = p.id)
        ))
        OR (p.id IN (SELECT rule.local_person_id FROM rule) AND has_two_factors(p.id))
        OR EXISTS (
            SELECT FROM sign_on_links l JOIN sign_ons s ON s.id = l.sign_on_id
            WHERE l.person_id = p.id AND (s.msp_id = of_msp OR s.tenant_id = of_tenant)
        )
    )
$$;
GRANT EXECUTE ON FUNCTION able_to_sign_in TO admit_app;

-- Current memberships of a token's creator where the token applies. None for a disabled person
-- or a suspended MSP. Works in any scope.
CREATE OR REPLACE FUNCTION memberships_behind(token api_tokens) RETURNS jsonb
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    RETURN (
        SELECT coalesce(jsonb_agg(jsonb_build_object(
            'role', m.role, 'permissions', r.permissions, 'msp_id', m.msp_id, 'tenant_id', m.tenant_id,
            'has_chosen', m.has_chosen
        )), '[]')
        FROM memberships m JOIN people p ON p.id = m.person_id LEFT JOIN custom_roles r ON r.id = m.custom_role_id
        WHERE m.person_id = token.maker_id AND p.status = 'active' AND NOT is_suspended_msp(m.msp_id)
            AND (num_nonnulls(token.via_msp_id, token.via_tenant_id) = 0
                OR m.msp_id = token.via_msp_id OR m.tenant_id = token.via_tenant_id)
            AND CASE
                WHEN m.tenant_id IS NOT NULL THEN m.tenant_id = token.tenant_id
                WHEN m.msp_id IS NULL OR m.msp_id = token.msp_id THEN true
                ELSE EXISTS (SELECT FROM tenants t WHERE t.id = token.tenant_id AND t.msp_id = m.msp_id)
                    AND (NOT m.has_chosen OR EXISTS (
                        SELECT FROM membership_tenants c
                        WHERE c.membership_id = m.id AND c.tenant_id = token.tenant_id
                    ))
            END
    );
END
$$;
GRANT EXECUTE ON FUNCTION memberships_behind TO admit_app;

-- Expiry of a token that is about to create another. The lock prevents its revocation until
-- then. Works in any scope.
CREATE OR REPLACE FUNCTION hold_token(wanted uuid) RETURNS timestamptz
    LANGUAGE sql SECURITY DEFINER SET search_path = public, pg_temp AS $$
    SELECT t.expires_at FROM api_tokens t WHERE t.id = wanted AND t.revoked_at IS NULL FOR SHARE
$$;
GRANT EXECUTE ON FUNCTION hold_token TO admit_app;

-- Revokes all tokens that a revoked token created, directly or through others, and returns their
-- number. Includes tenants of its MSP.
CREATE OR REPLACE FUNCTION revoke_tokens_of(wanted uuid, moment timestamptz) RETURNS int
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    number int;
    total int := 0;
BEGIN
    LOOP
        WITH RECURSIVE made (id) AS (
            SELECT t.id FROM api_tokens t WHERE t.parent_id = wanted
            UNION
            SELECT t.id FROM api_tokens t JOIN made ON t.parent_id = made.id
        )
        UPDATE api_tokens t SET revoked_at = moment FROM made WHERE t.id = made.id AND t.revoked_at IS NULL;
        GET DIAGNOSTICS number = ROW_COUNT;
        -- While this statement waited for a token in use, that token may have created another.
        EXIT WHEN number = 0;
        total := total + number;
    END LOOP;
    RETURN total;
END
$$;
GRANT EXECUTE ON FUNCTION revoke_tokens_of TO admit_app;

-- How the person in scope must sign in for this membership: by the owner's provider, or with two
-- factors. NULL: no requirement.
CREATE OR REPLACE FUNCTION wanted_of_member(member memberships) RETURNS text
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
    SELECT CASE WHEN r.local_person_id = member.person_id THEN 'two-factors' ELSE 'sign-on' END
    FROM sign_in_rules r
    WHERE r.sign_on_only AND member.person_id = scope_person_id()
        AND (r.msp_id = member.msp_id OR r.tenant_id = member.tenant_id)
$$;
GRANT EXECUTE ON FUNCTION wanted_of_member TO admit_app;

-- Whether a token of a suspended MSP created this tenant token, directly or through others.
CREATE OR REPLACE FUNCTION is_of_suspended_msp(token api_tokens) RETURNS boolean
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
    WITH RECURSIVE makers AS (
        SELECT t.parent_id, t.msp_id FROM api_tokens t WHERE t.id = token.parent_id
        UNION ALL
        SELECT t.parent_id, t.msp_id FROM api_tokens t JOIN makers ON makers.parent_id = t.id
    )
    SELECT EXISTS (SELECT FROM makers WHERE is_suspended_msp(makers.msp_id))
$$;
GRANT EXECUTE ON FUNCTION is_of_suspended_msp TO admit_app;

-- A person sees the tenants of their memberships. nac.core.access.grants decides about permissions
-- there.
CREATE OR REPLACE FUNCTION tenants_of_person() RETURNS SETOF uuid
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
    SELECT m.tenant_id FROM memberships m WHERE m.person_id = scope_person_id() AND m.tenant_id IS NOT NULL
    UNION ALL
    SELECT t.id FROM memberships m JOIN tenants t ON t.msp_id = m.msp_id
    WHERE m.person_id = scope_person_id() AND NOT m.has_chosen
    UNION ALL
    SELECT t.id FROM memberships m
    JOIN membership_tenants c ON c.membership_id = m.id JOIN tenants t ON t.id = c.tenant_id AND t.msp_id = m.msp_id
    WHERE m.person_id = scope_person_id()
$$;
GRANT EXECUTE ON FUNCTION tenants_of_person TO admit_app;

-- Queues a mail with a link to reset the password, in any scope. False if too many wait, so that
-- a stopped worker cannot fill the disk.
CREATE OR REPLACE FUNCTION ask_for_link(typed text, known boolean, asked_from inet, request text) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    IF (SELECT count(*) FROM (SELECT FROM account_mails LIMIT 10000) waiting) >= 10000 THEN
        RETURN false;
    END IF;
    INSERT INTO account_mails (kind, email, actor, is_known, address, request_id)
        VALUES ('forgotten', typed, 'system:sign-in', known, asked_from, request);
    RETURN true;
END
$$;
GRANT EXECUTE ON FUNCTION ask_for_link TO admit_app;
