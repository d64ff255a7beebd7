-- Whenever another certificate is issued, the names of the tenant's RADIUS servers are looked at: a few among very many.
-- Reads go on while it is built.
CREATE INDEX ix_certificates_of_servers ON certificates (tenant_id, not_after) WHERE profile = 'eap-server';
