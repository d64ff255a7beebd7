-- Each in the order of pages: what is the same is told apart by what the table has of each once alone. No update of a
-- device that was seen, and none of a user, changes a column of these.
CREATE INDEX ix_endpoints_tenant_id_created_at_mac ON endpoints (tenant_id, created_at, mac);
CREATE INDEX ix_endpoints_tenant_id_name_mac ON endpoints (tenant_id, name, mac);
CREATE INDEX ix_users_tenant_id_created_at_name ON users (tenant_id, created_at, name);
-- It never was: common names are not.
ALTER TABLE certificates ALTER COLUMN common_name_key SET NOT NULL;
CREATE INDEX ix_certificates_tenant_id_not_before_serial ON certificates (tenant_id, not_before, serial);
CREATE INDEX ix_certificates_tenant_id_not_after_serial ON certificates (tenant_id, not_after, serial);
CREATE INDEX ix_certificates_tenant_id_common_name_key_serial ON certificates (tenant_id, common_name_key, serial);
-- What these do as well.
DROP INDEX ix_certificates_tenant_id_common_name_key;
DROP INDEX ix_certificates_expiry;
CREATE INDEX ix_people_created_at_id ON people (created_at, id);
