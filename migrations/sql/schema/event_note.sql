-- Events of objects that have no log, with the object's state at that time. Triggers insert them
-- in the transaction of the change. No reference to the tenant, because shippers must never be
-- rejected.
CREATE TABLE event_notes (
    id bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
    tenant_id uuid NOT NULL,
    -- Start of the transaction, so that its notes are adjacent. `happened_at` is the time of
    -- the event.
    at timestamptz NOT NULL DEFAULT now(),
    kind text NOT NULL
        CONSTRAINT ck_event_notes_kind CHECK (kind IN ('session', 'alarm', 'endpoint', 'certificate')),
    what text NOT NULL,
    happened_at timestamptz NOT NULL,
    said jsonb NOT NULL,
    CONSTRAINT pk_event_notes PRIMARY KEY (tenant_id, at, id)
);
-- Deletion of old notes of all tenants.
CREATE INDEX ix_event_notes_at ON event_notes USING brin (at);
-- In delivery order. Otherwise the planner may sort the rest of a mark for each batch.
CREATE INDEX ix_event_notes_live ON event_notes (tenant_id, at, id) WHERE kind <> 'session';
-- No statistics, as for endpoints (docs/adr/0014).
ALTER TABLE event_notes ALTER tenant_id SET STATISTICS 0;
GRANT SELECT ON event_notes TO admit_app, admit_cell;
GRANT SELECT, DELETE ON event_notes TO admit_worker;

-- Approvals that end. No transaction ends them, so the worker notes each at its time.
CREATE TABLE endpoint_expiries (
    tenant_id uuid NOT NULL,
    endpoint_id uuid NOT NULL,
    valid_until timestamptz NOT NULL,
    CONSTRAINT pk_endpoint_expiries PRIMARY KEY (tenant_id, endpoint_id),
    CONSTRAINT fk_endpoint_expiries_tenant_id_endpoint_id FOREIGN KEY (tenant_id, endpoint_id)
        REFERENCES endpoints (tenant_id, id) ON DELETE CASCADE
);
CREATE INDEX ix_endpoint_expiries_valid_until ON endpoint_expiries (valid_until);
GRANT SELECT ON endpoint_expiries TO admit_app, admit_worker;
