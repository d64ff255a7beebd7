-- What is looked for most: devices that were not simply admitted.
CREATE INDEX ix_auth_log_not_admitted ON auth_log (tenant_id, at DESC, id DESC)
    WHERE NOT permitted OR verdict IN ('quarantine', 'deny') OR monitored <> '';

-- In lower case, as columns and not as expressions: lower() is not leakproof, and an index of it is of no use behind
-- row-level security. Of MAB the MAC address is what is searched by, and the identity is left out.
ALTER TABLE auth_log
    ADD COLUMN identity_key text NOT NULL DEFAULT '',
    ADD COLUMN common_name_key text NOT NULL DEFAULT '';
UPDATE auth_log SET
    identity_key = CASE WHEN method = 'mab' AND permitted THEN '' ELSE lower(identity) END,
    common_name_key = lower(coalesce(request -> 'certificate.common_name' ->> 0, ''))
WHERE NOT (method = 'mab' AND permitted);
CREATE INDEX ix_auth_log_identity_key ON auth_log (tenant_id, identity_key, at DESC, id DESC) WHERE identity_key <> '';
CREATE INDEX ix_auth_log_common_name_key ON auth_log (tenant_id, common_name_key, at DESC, id DESC)
    WHERE common_name_key <> '';

ALTER TABLE certificates ADD COLUMN common_name_key text GENERATED ALWAYS AS (lower(common_name)) STORED;
CREATE INDEX ix_certificates_tenant_id_common_name_key ON certificates (tenant_id, common_name_key);
