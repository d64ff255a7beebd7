-- Agents follow this table by transaction id. New rows are visible now and were not in the last
-- snapshot.
CREATE TABLE replica_changes (
    id bigint CONSTRAINT pk_replica_changes PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    xact xid8 NOT NULL DEFAULT pg_current_xact_id(),
    at timestamptz NOT NULL DEFAULT now(),
    tenant_id uuid,
    cell_id int,
    noun text NOT NULL,
    key text NOT NULL
);
CREATE INDEX ix_replica_changes_xact ON replica_changes (xact);
GRANT SELECT ON replica_changes TO admit_cell;
GRANT SELECT, DELETE ON replica_changes TO admit_worker;
