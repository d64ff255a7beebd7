-- The document as it was written: jsonb keeps neither the order of keys nor blanks. NULL where it came as an object.
ALTER TABLE policy_versions ADD COLUMN written text;
-- What a replay before publishing found, and who acknowledged it; NULL where none was asked for.
ALTER TABLE policy_versions ADD COLUMN replayed jsonb;

-- Publishing replays the requests of so many days and refuses differences that nobody acknowledged; NULL does not.
ALTER TABLE tenants ADD COLUMN replay_days int CONSTRAINT ck_tenants_replay_days CHECK (replay_days BETWEEN 1 AND 90);

-- How often each rule of a version decided on a UTC day; rule '' is the fallback. Written by shippers with the rows of
-- auth_log that it counts, so without foreign keys.
CREATE TABLE policy_hits (
    tenant_id uuid NOT NULL,
    policy_id uuid NOT NULL,
    version int NOT NULL,
    rule_id text NOT NULL,
    day date NOT NULL,
    hits bigint NOT NULL,
    last_at timestamptz NOT NULL,
    CONSTRAINT pk_policy_hits PRIMARY KEY (tenant_id, policy_id, version, rule_id, day)
) WITH (fillfactor = 70);

ALTER TABLE policy_hits ENABLE ROW LEVEL SECURITY;
CREATE POLICY tenant_scope ON policy_hits TO admit_app, admit_worker
    USING (tenant_id = scope_tenant_id()) WITH CHECK (tenant_id = scope_tenant_id());
CREATE POLICY cell_scope ON policy_hits TO admit_cell
    USING (tenant_id IN (SELECT s.tenant_id FROM slots s WHERE s.cell_id = scope_cell_id()))
    WITH CHECK (tenant_id IN (SELECT s.tenant_id FROM slots s WHERE s.cell_id = scope_cell_id()));

GRANT SELECT, DELETE ON policy_hits TO admit_app, admit_worker;
GRANT SELECT, INSERT ON policy_hits TO admit_cell;
-- Not whose they are.
GRANT UPDATE (hits, last_at) ON policy_hits TO admit_cell;
