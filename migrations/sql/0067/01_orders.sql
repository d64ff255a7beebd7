-- The orders that lists can be had in, of tables of which a tenant or an MSP may have many rows.
CREATE INDEX ix_sites_tenant_id_name ON sites (tenant_id, name, slug);
CREATE INDEX ix_sites_tenant_id_time_zone ON sites (tenant_id, time_zone, slug);
CREATE INDEX ix_certificate_authorities_tenant_id_not_before ON certificate_authorities (tenant_id, not_before, id);
CREATE INDEX ix_certificate_authorities_tenant_id_not_after ON certificate_authorities (tenant_id, not_after, id);
CREATE INDEX ix_certificate_authorities_tenant_id_name ON certificate_authorities (tenant_id, name, id);
DROP INDEX ix_retention_holds_tenant_id;
CREATE INDEX ix_retention_holds_tenant_id ON retention_holds (tenant_id, created_at, id);
DROP INDEX ix_sign_ins_person_id, ix_sign_ins_via_msp_id, ix_sign_ins_via_tenant_id;
CREATE INDEX ix_sign_ins_person_id ON sign_ins (person_id, created_at, id);
CREATE INDEX ix_sign_ins_via_msp_id ON sign_ins (via_msp_id, created_at, id) WHERE via_msp_id IS NOT NULL;
CREATE INDEX ix_sign_ins_via_tenant_id ON sign_ins (via_tenant_id, created_at, id) WHERE via_tenant_id IS NOT NULL;
