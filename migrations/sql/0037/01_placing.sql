-- Where a cell is and what it is for, and the address that its NASes send to ('': where it listens).
ALTER TABLE cells
    ADD COLUMN labels text[] NOT NULL DEFAULT '{}',
    ADD COLUMN address text NOT NULL DEFAULT '';
GRANT UPDATE (labels, address) ON cells TO admit_app;

-- How long a tenant that was deleted can be had back.
ALTER TABLE msps
    ADD COLUMN deletion_days int NOT NULL DEFAULT 30 CONSTRAINT ck_msps_deletion_days CHECK (deletion_days BETWEEN 1 AND 365);
ALTER TABLE tenants
    ADD COLUMN purge_at timestamptz,
    ADD CONSTRAINT ck_tenants_purge_at CHECK (purge_at IS NULL OR status = 'deleting');
CREATE INDEX ix_tenants_purge_at ON tenants (purge_at) WHERE purge_at IS NOT NULL;
-- The worker carries deletions out.
GRANT DELETE ON retention_holds TO admit_worker;
