-- What was to be signed and may have been, but was never handed out: 'abandoned'. It counts as revoked, since the time of revoked_at.
ALTER TABLE certificates
    DROP CONSTRAINT ck_certificates_status,
    DROP CONSTRAINT ck_certificates_signed,
    ADD CONSTRAINT ck_certificates_status CHECK (status IN ('intended', 'abandoned', 'valid', 'suspended', 'revoked')),
    ADD CONSTRAINT ck_certificates_signed CHECK (status IN ('intended', 'abandoned') OR certificate_der IS NOT NULL);
DROP INDEX ix_certificates_revoked;
CREATE INDEX ix_certificates_revoked ON certificates (authority_id) WHERE status IN ('abandoned', 'suspended', 'revoked');
CREATE INDEX ix_certificates_intended ON certificates (tenant_id, created_at) WHERE status = 'intended';

ALTER TABLE authority_intents ADD COLUMN abandoned_at timestamptz;
CREATE INDEX ix_authority_intents_open ON authority_intents (tenant_id, created_at) WHERE signed_at IS NULL AND abandoned_at IS NULL;

-- The last number that was taken for a list, whether it was published or not.
ALTER TABLE revocation_lists ADD COLUMN reserved_number bigint NOT NULL DEFAULT 0;
UPDATE revocation_lists SET reserved_number = number;

-- Tenants with something that was to be signed and is older than the moment: the worker acts in the scope of one at a time.
CREATE FUNCTION tenants_with_intents(before timestamptz) RETURNS SETOF uuid
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
    SELECT c.tenant_id FROM certificates c WHERE c.status = 'intended' AND c.created_at < before
    UNION
    SELECT i.tenant_id FROM authority_intents i WHERE i.signed_at IS NULL AND i.abandoned_at IS NULL AND i.created_at < before
$$;
REVOKE EXECUTE ON FUNCTION tenants_with_intents(timestamptz) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION tenants_with_intents(timestamptz) TO admit_worker;
