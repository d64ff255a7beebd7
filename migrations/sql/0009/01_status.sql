ALTER TABLE certificate_authorities
    ADD COLUMN IF NOT EXISTS revoked_at timestamptz,
    ADD COLUMN IF NOT EXISTS revocation_reason text NOT NULL DEFAULT '';
-- Of a cross-certificate, which is no authority's own: with the authority that it vouches for.
ALTER TABLE authority_intents
    ADD COLUMN revoked_at timestamptz,
    ADD COLUMN revocation_reason text NOT NULL DEFAULT '';

-- OCSP asks for one of them, a list is made of those that are revoked.
CREATE INDEX ix_certificates_authority_id_serial ON certificates (authority_id, serial);
DROP INDEX ix_certificates_authority_id;
CREATE INDEX ix_certificates_revoked ON certificates (authority_id) WHERE status IN ('suspended', 'revoked');

-- The list that an authority publishes now.
CREATE TABLE revocation_lists (
    authority_id uuid CONSTRAINT pk_revocation_lists PRIMARY KEY,
    tenant_id uuid NOT NULL CONSTRAINT fk_revocation_lists_tenant_id REFERENCES tenants ON DELETE CASCADE,
    -- Written before the list is signed; never goes back (RFC 5280 5.2.3).
    number bigint NOT NULL DEFAULT 0,
    crl_der bytea,
    this_update timestamptz,
    next_update timestamptz,
    -- Of the last list that was made because it was time: an entry leaves once it was on one beyond its validity (3.3).
    scheduled_at timestamptz,
    -- Not before, because the last attempt failed.
    retry_at timestamptz,
    CONSTRAINT fk_revocation_lists_tenant_id_authority_id FOREIGN KEY (tenant_id, authority_id)
        REFERENCES certificate_authorities (tenant_id, id) ON DELETE CASCADE
);
CREATE INDEX ix_revocation_lists_tenant_id ON revocation_lists (tenant_id);

-- Authorities whose list is to be made anew. Only ever appended to, so that nobody who revokes waits for anybody.
CREATE TABLE revocation_work (
    id bigint CONSTRAINT pk_revocation_work PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    tenant_id uuid NOT NULL CONSTRAINT fk_revocation_work_tenant_id REFERENCES tenants ON DELETE CASCADE,
    authority_id uuid NOT NULL
);
CREATE INDEX ix_revocation_work_authority_id ON revocation_work (authority_id);
CREATE INDEX ix_revocation_work_tenant_id ON revocation_work (tenant_id);

-- Whom an authority has told to answer for it (RFC 6960 2.6).
CREATE TABLE ocsp_signers (
    id uuid CONSTRAINT pk_ocsp_signers PRIMARY KEY DEFAULT gen_random_uuid(),
    tenant_id uuid NOT NULL CONSTRAINT fk_ocsp_signers_tenant_id REFERENCES tenants ON DELETE CASCADE,
    authority_id uuid NOT NULL,
    serial bytea NOT NULL,
    -- NULL until signed.
    certificate_der bytea,
    key_sealed bytea NOT NULL,
    not_before timestamptz NOT NULL,
    not_after timestamptz NOT NULL,
    CONSTRAINT fk_ocsp_signers_tenant_id_authority_id FOREIGN KEY (tenant_id, authority_id)
        REFERENCES certificate_authorities (tenant_id, id) ON DELETE CASCADE
);
CREATE INDEX ix_ocsp_signers_authority_id_not_after ON ocsp_signers (authority_id, not_after);
CREATE INDEX ix_ocsp_signers_tenant_id ON ocsp_signers (tenant_id);

CREATE POLICY authority_scope ON revocation_lists FOR SELECT TO admit_app USING (authority_id = scope_authority_id());
CREATE POLICY authority_scope ON ocsp_signers FOR SELECT TO admit_app USING (authority_id = scope_authority_id());
CREATE POLICY authority_scope ON authority_intents FOR SELECT TO admit_app USING (issuer_id = scope_authority_id());
CREATE POLICY authority_scope_issued ON certificate_authorities FOR SELECT TO admit_app USING (issuer_id = scope_authority_id());

-- What is to be made for which authority, of all tenants or of one authority: the worker acts in the scope of one at a time.
CREATE FUNCTION status_work(
    moment timestamptz, list_every interval, which uuid DEFAULT NULL
) RETURNS TABLE (tenant_id uuid, authority_id uuid, list_due boolean, list_scheduled boolean, signer_due boolean)
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
    SELECT * FROM (
        SELECT a.tenant_id, a.id,
            EXISTS (SELECT FROM revocation_work w WHERE w.authority_id = a.id),
            -- What was made in the future was made by a clock that was wrong.
            l.scheduled_at IS NULL OR l.scheduled_at <= moment - list_every OR l.this_update > moment + interval '5 minutes',
            NOT EXISTS (
                SELECT FROM ocsp_signers s
                WHERE s.authority_id = a.id AND s.certificate_der IS NOT NULL AND s.not_before <= moment
                    -- The next one comes at half time, but none outlives the authority.
                    AND (s.not_after > moment + (s.not_after - s.not_before) / 2 OR s.not_after >= a.not_after)
            )
        FROM certificate_authorities a LEFT JOIN revocation_lists l ON l.authority_id = a.id
        -- A root's key may be away: what is due waits for it.
        WHERE a.kind <> 'external' AND a.key_sealed IS NOT NULL AND a.not_after > moment
            AND (l.retry_at IS NULL OR l.retry_at <= moment OR l.retry_at > moment + interval '5 minutes')
            AND (which IS NULL OR a.id = which)
    ) AS work (tenant_id, authority_id, list_due, list_scheduled, signer_due)
    WHERE work.list_due OR work.list_scheduled OR work.signer_due
$$;
REVOKE EXECUTE ON FUNCTION status_work(timestamptz, interval, uuid) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION status_work(timestamptz, interval, uuid) TO admit_app, admit_worker;

-- For answers at the rate of thousands a second: one statement, and no setting of a scope before it. It tells what the scope of
-- the authority would show.
CREATE FUNCTION certificate_statuses(authority uuid, serials bytea[])
    RETURNS TABLE (serial bytea, status text, revoked_at timestamptz, revocation_reason text, not_before timestamptz)
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
    SELECT c.serial, c.status, c.revoked_at, c.revocation_reason, c.not_before
    FROM certificates c WHERE c.authority_id = authority AND c.serial = ANY (serials)
$$;
REVOKE EXECUTE ON FUNCTION certificate_statuses(uuid, bytea[]) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION certificate_statuses(uuid, bytea[]) TO admit_app;

GRANT SELECT, INSERT, UPDATE, DELETE ON revocation_lists, ocsp_signers TO admit_app, admit_worker;
GRANT SELECT, INSERT, DELETE ON revocation_work TO admit_app, admit_worker;
