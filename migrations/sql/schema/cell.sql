CREATE TABLE dictionaries (
    -- Cells share these rows. The check prevents content under another hash.
    sha256 bytea
        CONSTRAINT pk_dictionaries PRIMARY KEY
        CONSTRAINT ck_dictionaries_sha256 CHECK (sha256 = sha256(content)),
    content bytea NOT NULL,
    server_version text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now()
);
GRANT SELECT ON dictionaries TO admit_app, admit_worker;
GRANT SELECT, INSERT ON dictionaries TO admit_cell;

-- Few rows with an update at each heartbeat, hence the fillfactor.
CREATE TABLE cells (
    id int CONSTRAINT pk_cells PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    name text NOT NULL CONSTRAINT uq_cells_name UNIQUE CONSTRAINT ck_cells_name CHECK (name <> ''),
    -- Empty after an orderly stop.
    host text NOT NULL,
    status text NOT NULL DEFAULT 'active'
        CONSTRAINT ck_cells_status CHECK (status IN ('active', 'draining', 'retired')),
    dictionary_sha256 bytea CONSTRAINT fk_cells_dictionary_sha256 REFERENCES dictionaries,
    replica_position text
        CONSTRAINT ck_cells_replica_position CHECK (
            replica_position IS NULL OR replica_position::pg_snapshot IS NOT NULL
        ),
    replica_position_at timestamptz,
    agent_seen_at timestamptz,
    radiusd_started_at timestamptz,
    counters jsonb NOT NULL DEFAULT '{}',
    alarms jsonb NOT NULL DEFAULT '[]',
    -- The database has all journal records from before this time.
    shipped_until timestamptz,
    -- Location and purpose, for the placement of tenants.
    labels text[] NOT NULL DEFAULT '{}',
    -- The address that NASes send to. Empty if it is the cell's own.
    address text NOT NULL DEFAULT ''
) WITH (fillfactor = 50);
GRANT SELECT ON cells TO admit_app, admit_cell, admit_worker;
GRANT UPDATE (status, labels, address) ON cells TO admit_app;
GRANT UPDATE (
    host, dictionary_sha256, replica_position, replica_position_at, agent_seen_at, radiusd_started_at,
    counters, alarms, shipped_until
) ON cells TO admit_cell;
GRANT UPDATE (status) ON cells TO admit_worker;

CREATE TABLE slots (
    id uuid CONSTRAINT pk_slots PRIMARY KEY DEFAULT gen_random_uuid(),
    cell_id int NOT NULL CONSTRAINT fk_slots_cell_id REFERENCES cells,
    number smallint NOT NULL CONSTRAINT ck_slots_number CHECK (number >= 0),
    auth_port int NOT NULL CONSTRAINT ck_slots_auth_port CHECK (auth_port BETWEEN 1 AND 65535),
    acct_port int NOT NULL CONSTRAINT ck_slots_acct_port CHECK (acct_port BETWEEN 1 AND 65535),
    secret_sealed bytea NOT NULL,
    tenant_id uuid CONSTRAINT fk_slots_tenant_id REFERENCES tenants CONSTRAINT uq_slots_tenant_id UNIQUE,
    status text NOT NULL DEFAULT 'free'
        CONSTRAINT ck_slots_status CHECK (status IN ('free', 'assigned', 'retired', 'reserved', 'ready')),
    -- A tenant that is about to move here, or has just left. `reserved`: radiusd does not
    -- use the tenant's secret yet. `ready`: it does.
    reserved_for uuid
        CONSTRAINT fk_slots_reserved_for REFERENCES tenants
        CONSTRAINT uq_slots_reserved_for UNIQUE,
    CONSTRAINT uq_slots_cell_id_number UNIQUE (cell_id, number),
    CONSTRAINT ck_slots_assigned CHECK ((status = 'assigned') = (tenant_id IS NOT NULL)),
    CONSTRAINT ck_slots_reserved CHECK ((status IN ('reserved', 'ready')) = (reserved_for IS NOT NULL))
);
GRANT SELECT ON slots TO admit_app, admit_worker;
GRANT SELECT, INSERT ON slots TO admit_cell;
GRANT UPDATE (secret_sealed, tenant_id, status, reserved_for) ON slots TO admit_app, admit_worker;
GRANT UPDATE (auth_port, acct_port, secret_sealed, status) ON slots TO admit_cell;

CREATE TABLE journal_positions (
    cell_id int NOT NULL CONSTRAINT fk_journal_positions_cell_id REFERENCES cells ON DELETE CASCADE,
    stream text NOT NULL CONSTRAINT ck_journal_positions_stream CHECK (stream IN ('auth', 'acct')),
    segment text NOT NULL,
    "offset" bigint NOT NULL CONSTRAINT ck_journal_positions_offset CHECK ("offset" >= 0),
    open_conversations jsonb NOT NULL DEFAULT '{}',
    updated_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT pk_journal_positions PRIMARY KEY (cell_id, stream)
) WITH (fillfactor = 50);
GRANT SELECT ON journal_positions TO admit_app, admit_worker;
GRANT SELECT, INSERT, UPDATE ON journal_positions TO admit_cell;

-- Journal records that could not be stored. The transaction that moves the position past a
-- record also inserts it here, so it is kept exactly once.
CREATE TABLE quarantined_records (
    id bigint CONSTRAINT pk_quarantined_records PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    cell_id int NOT NULL CONSTRAINT fk_quarantined_records_cell_id REFERENCES cells ON DELETE CASCADE,
    stream text NOT NULL CONSTRAINT ck_quarantined_records_stream CHECK (stream IN ('auth', 'acct')),
    -- NULL for an unreadable record. No reference, because a deleted tenant may be the
    -- reason.
    tenant_id uuid,
    why text NOT NULL,
    payload bytea NOT NULL,
    at timestamptz NOT NULL DEFAULT now(),
    -- A cell received the record before the tenant moved. The agent of the tenant's new cell
    -- ships it.
    handed_over boolean NOT NULL DEFAULT false
);
CREATE INDEX ix_quarantined_records_cell_id_stream_id ON quarantined_records (cell_id, stream, id);
CREATE INDEX ix_quarantined_records_tenant_id ON quarantined_records (tenant_id);
CREATE INDEX ix_quarantined_records_handed_over ON quarantined_records (cell_id) WHERE handed_over;
GRANT SELECT ON quarantined_records TO admit_app;
GRANT SELECT, INSERT, DELETE ON quarantined_records TO admit_cell;
GRANT SELECT, DELETE ON quarantined_records TO admit_worker;
-- SELECT ... FOR UPDATE requires UPDATE on one column.
GRANT UPDATE (why, handed_over) ON quarantined_records TO admit_cell;

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

-- Alarms of the platform. Alarms of cells are in cells.alarms.
CREATE TABLE platform_alarms (
    code text CONSTRAINT pk_platform_alarms PRIMARY KEY,
    detail text NOT NULL,
    since timestamptz NOT NULL
);
GRANT SELECT ON platform_alarms TO admit_app;
GRANT SELECT, INSERT, UPDATE, DELETE ON platform_alarms TO admit_worker;
