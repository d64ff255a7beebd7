-- What was asked of a NAS, the last first.
CREATE INDEX ix_coa_requests_tenant_id_nas_id ON coa_requests (tenant_id, nas_id, id);
