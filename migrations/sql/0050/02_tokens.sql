-- Who answers for a token: the person who made it, or who made the token that made it; NULL for one of the command line.
ALTER TABLE api_tokens
    ADD COLUMN maker_id uuid CONSTRAINT fk_api_tokens_maker_id REFERENCES people ON DELETE CASCADE,
    -- As the audit log names that person.
    ADD COLUMN maker text,
    -- Where an organisation's provider had named that person: only what this owner has given counts.
    ADD COLUMN via_msp_id uuid CONSTRAINT fk_api_tokens_via_msp_id REFERENCES msps ON DELETE CASCADE,
    ADD COLUMN via_tenant_id uuid CONSTRAINT fk_api_tokens_via_tenant_id REFERENCES tenants ON DELETE CASCADE,
    -- The token that made it, and that it ends with.
    ADD COLUMN parent_id uuid CONSTRAINT fk_api_tokens_parent_id REFERENCES api_tokens ON DELETE CASCADE,
    ADD CONSTRAINT ck_api_tokens_maker CHECK (num_nulls(maker_id, maker) <> 1),
    ADD CONSTRAINT ck_api_tokens_via CHECK (num_nonnulls(via_msp_id, via_tenant_id) <= num_nonnulls(maker_id));
CREATE INDEX ix_api_tokens_maker_id ON api_tokens (maker_id) WHERE maker_id IS NOT NULL;
CREATE INDEX ix_api_tokens_parent_id ON api_tokens (parent_id) WHERE parent_id IS NOT NULL;
CREATE INDEX ix_api_tokens_via_msp_id ON api_tokens (via_msp_id) WHERE via_msp_id IS NOT NULL;
CREATE INDEX ix_api_tokens_via_tenant_id ON api_tokens (via_tenant_id) WHERE via_tenant_id IS NOT NULL;

-- Those that there are, as their audit names tell.
UPDATE api_tokens t SET parent_id = p.id FROM api_tokens p
    WHERE t.created_by LIKE 'token:%' AND p.public_id = substring(t.created_by FROM '\(admit_([a-z0-9]{16})\)$');
WITH RECURSIVE made (id, person_id, actor) AS (
    SELECT t.id, p.id, t.created_by FROM api_tokens t JOIN people p
        ON p.email = substring(t.created_by FROM '^person:(\S+)')
    UNION
    SELECT t.id, made.person_id, made.actor FROM api_tokens t JOIN made ON t.parent_id = made.id
), told AS (
    SELECT made.*, substring(made.actor FROM '\(by the provider of MSP (\S+)\)$') AS msp,
        substring(made.actor FROM '\(by the provider of tenant (\S+)\)$') AS tenant
    FROM made
)
UPDATE api_tokens t SET maker_id = told.person_id, maker = told.actor,
        via_msp_id = (SELECT m.id FROM msps m WHERE m.id::text = told.msp),
        via_tenant_id = (SELECT o.id FROM tenants o WHERE o.id::text = told.tenant)
    FROM told WHERE told.id = t.id;
WITH RECURSIVE over (id, revoked_at, expires_at) AS (
    SELECT t.id, t.revoked_at, t.expires_at FROM api_tokens t WHERE t.parent_id IS NULL
    UNION
    SELECT t.id, coalesce(t.revoked_at, over.revoked_at), least(t.expires_at, over.expires_at)
        FROM api_tokens t JOIN over ON t.parent_id = over.id
)
UPDATE api_tokens t SET revoked_at = over.revoked_at, expires_at = over.expires_at
    FROM over WHERE over.id = t.id AND t.parent_id IS NOT NULL;

-- Memberships that now give the maker something where the token is of; none of who is disabled. In any scope.
CREATE FUNCTION memberships_behind(token api_tokens) RETURNS jsonb
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
    SELECT coalesce(jsonb_agg(jsonb_build_object(
        'role', m.role, 'permissions', r.permissions, 'msp_id', m.msp_id, 'tenant_id', m.tenant_id,
        'has_chosen', m.has_chosen
    )), '[]')
    FROM memberships m JOIN people p ON p.id = m.person_id LEFT JOIN custom_roles r ON r.id = m.custom_role_id
    WHERE m.person_id = token.maker_id AND p.status = 'active'
        AND (num_nonnulls(token.via_msp_id, token.via_tenant_id) = 0
            OR m.msp_id = token.via_msp_id OR m.tenant_id = token.via_tenant_id)
        AND CASE
            WHEN m.tenant_id IS NOT NULL THEN m.tenant_id = token.tenant_id
            WHEN m.msp_id IS NULL OR m.msp_id = token.msp_id THEN true
            ELSE EXISTS (SELECT FROM tenants t WHERE t.id = token.tenant_id AND t.msp_id = m.msp_id)
                AND (NOT m.has_chosen OR EXISTS (
                    SELECT FROM membership_tenants c WHERE c.membership_id = m.id AND c.tenant_id = token.tenant_id
                ))
        END
$$;

-- Until when a token is good that is to make another; it cannot be revoked before that one is there. In any scope.
CREATE FUNCTION hold_token(wanted uuid) RETURNS timestamptz
    LANGUAGE sql SECURITY DEFINER SET search_path = public, pg_temp AS $$
    SELECT t.expires_at FROM api_tokens t WHERE t.id = wanted AND t.revoked_at IS NULL FOR SHARE
$$;

-- Those that a revoked token has made, also at tenants of its MSP, and what these have made: how many.
CREATE FUNCTION revoke_tokens_of(wanted uuid, moment timestamptz) RETURNS int
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
        -- While it waited for one that was being used to make another, that one has come.
        EXIT WHEN number = 0;
        total := total + number;
    END LOOP;
    RETURN total;
END
$$;
REVOKE EXECUTE ON FUNCTION memberships_behind(api_tokens), hold_token(uuid), revoke_tokens_of(uuid, timestamptz)
    FROM PUBLIC;
GRANT EXECUTE ON FUNCTION memberships_behind(api_tokens), hold_token(uuid), revoke_tokens_of(uuid, timestamptz)
    TO admit_app;
