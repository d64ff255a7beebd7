-- Realms and NetBIOS domains that are taken off user names, in lower case: CORP\anna and anna@corp.example are anna.
ALTER TABLE tenants ADD COLUMN realms text[] NOT NULL DEFAULT '{}'
    CONSTRAINT ck_tenants_realms CHECK (cardinality(realms) <= 50);
