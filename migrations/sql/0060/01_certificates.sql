-- A tenant's file has its certificates in no order: whom they renew is looked at when all of them are there.
ALTER TABLE certificates ALTER CONSTRAINT fk_certificates_tenant_id_renews_id DEFERRABLE INITIALLY IMMEDIATE;
