ALTER TABLE redecision_items
    -- Whether a step of what the NAS is asked is a Disconnect.
    ADD COLUMN may_disconnect boolean NOT NULL DEFAULT true;
ALTER TABLE redecisions
    ADD COLUMN may_disconnect int NOT NULL DEFAULT 0,
    -- What it found, once its items are deleted.
    ADD COLUMN found jsonb;
UPDATE redecisions SET may_disconnect = disconnects + reauthentications;

-- Tenants whose sessions could not be decided anew, until they are.
CREATE TABLE redecision_failures (
    tenant_id uuid CONSTRAINT pk_redecision_failures PRIMARY KEY
        CONSTRAINT fk_redecision_failures_tenant_id REFERENCES tenants ON DELETE CASCADE,
    since timestamptz NOT NULL DEFAULT now(),
    times int NOT NULL DEFAULT 1,
    -- Of the last time.
    detail text NOT NULL
);
GRANT SELECT, INSERT, UPDATE, DELETE ON redecision_failures TO admit_app, admit_worker;
-- The cell tells of them, among its alarms.
CREATE POLICY cell_scope ON redecision_failures FOR SELECT TO admit_cell
    USING (tenant_id IN (SELECT s.tenant_id FROM slots s WHERE s.cell_id = scope_cell_id()));
GRANT SELECT ON redecision_failures TO admit_cell;

-- What was journalled before is in the database.
ALTER TABLE cells ADD COLUMN shipped_until timestamptz;
GRANT UPDATE (shipped_until) ON cells TO admit_cell;
