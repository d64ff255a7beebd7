-- From how high up a tenant was suspended: 1 its own people, 2 its MSP, 3 the platform. Who stands lower does not resume it.
ALTER TABLE tenants ADD COLUMN suspension_level smallint;
ALTER TABLE tenants ADD CONSTRAINT ck_tenants_suspension_level CHECK (suspension_level BETWEEN 1 AND 3) NOT VALID;
ALTER TABLE tenants VALIDATE CONSTRAINT ck_tenants_suspension_level;

-- Of those that are suspended now it is not known: an MSP may resume them, and the platform what its trials' end has stopped.
UPDATE tenants SET suspension_level = 2 WHERE status = 'suspended';
UPDATE tenants SET suspension_level = 3
WHERE status = 'suspended' AND id IN (SELECT tenant_id FROM trials WHERE state <> 'converted');
