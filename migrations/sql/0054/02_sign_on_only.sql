-- Of an MSP or a tenant that lets its members in by its own provider alone, but for one account of this installation.
ALTER TABLE sign_in_rules
    ADD COLUMN sign_on_only boolean NOT NULL DEFAULT false,
    ADD COLUMN local_person_id uuid CONSTRAINT fk_sign_in_rules_local_person_id REFERENCES people ON DELETE SET NULL,
    ADD CONSTRAINT ck_sign_in_rules_sign_on_only CHECK (NOT sign_on_only OR num_nonnulls(msp_id, tenant_id) = 1);
CREATE INDEX ix_sign_in_rules_local_person_id ON sign_in_rules (local_person_id) WHERE local_person_id IS NOT NULL;

-- How the person in scope has to come in for this membership: by the owner's provider, or with two factors of his own;
-- NULL where it is the same.
CREATE FUNCTION wanted_of_member(member memberships) RETURNS text
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
    SELECT CASE WHEN r.local_person_id = member.person_id THEN 'two-factors' ELSE 'sign-on' END
    FROM sign_in_rules r
    WHERE r.sign_on_only AND member.person_id = scope_person_id()
        AND (r.msp_id = member.msp_id OR r.tenant_id = member.tenant_id)
$$;

-- Whether somebody has two factors of his own, however they are shown. Asked of members who have come in.
CREATE FUNCTION has_two_factors(wanted uuid) RETURNS boolean
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
    SELECT EXISTS (SELECT FROM passkeys k WHERE k.person_id = wanted)
        OR EXISTS (
            SELECT FROM totps t JOIN people p ON p.id = t.person_id
            WHERE t.person_id = wanted AND t.confirmed_at IS NOT NULL AND p.password_hash <> ''
        )
$$;

-- As before, but that where the owner's provider is the only way in, others count no more.
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
REVOKE EXECUTE ON FUNCTION wanted_of_member(memberships), has_two_factors(uuid) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION wanted_of_member(memberships), has_two_factors(uuid) TO admit_app;
