CREATE TABLE dictionaries (
    -- Of the content as it is stored: cells share these rows, and none can pass its own off as another's.
    sha256 bytea CONSTRAINT pk_dictionaries PRIMARY KEY CONSTRAINT ck_dictionaries_sha256 CHECK (sha256 = sha256(content)),
    content bytea NOT NULL,
    server_version text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE cells (
    id int CONSTRAINT pk_cells PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    name text NOT NULL CONSTRAINT uq_cells_name UNIQUE CONSTRAINT ck_cells_name CHECK (name <> ''),
    host text NOT NULL, -- '' after an orderly end
    status text NOT NULL DEFAULT 'active' CONSTRAINT ck_cells_status CHECK (status IN ('active', 'draining', 'retired')),
    dictionary_sha256 bytea CONSTRAINT fk_cells_dictionary_sha256 REFERENCES dictionaries,
    replica_position text CONSTRAINT ck_cells_replica_position CHECK (replica_position IS NULL OR replica_position::pg_snapshot IS NOT NULL),
    replica_position_at timestamptz,
    agent_seen_at timestamptz,
    radiusd_started_at timestamptz,
    counters jsonb NOT NULL DEFAULT '{}',
    alarms jsonb NOT NULL DEFAULT '[]'
) WITH (fillfactor = 50); -- a few rows, updated at every heartbeat

CREATE TABLE slots (
    id uuid CONSTRAINT pk_slots PRIMARY KEY DEFAULT gen_random_uuid(),
    cell_id int NOT NULL CONSTRAINT fk_slots_cell_id REFERENCES cells,
    number smallint NOT NULL CONSTRAINT ck_slots_number CHECK (number >= 0),
    auth_port int NOT NULL CONSTRAINT ck_slots_auth_port CHECK (auth_port BETWEEN 1 AND 65535),
    acct_port int NOT NULL CONSTRAINT ck_slots_acct_port CHECK (acct_port BETWEEN 1 AND 65535),
    secret_sealed bytea NOT NULL,
    tenant_id uuid CONSTRAINT fk_slots_tenant_id REFERENCES tenants CONSTRAINT uq_slots_tenant_id UNIQUE,
    status text NOT NULL DEFAULT 'free' CONSTRAINT ck_slots_status CHECK (status IN ('free', 'assigned', 'retired')),
    CONSTRAINT uq_slots_cell_id_number UNIQUE (cell_id, number),
    CONSTRAINT ck_slots_assigned CHECK ((status = 'assigned') = (tenant_id IS NOT NULL))
);

CREATE TABLE journal_positions (
    cell_id int NOT NULL CONSTRAINT fk_journal_positions_cell_id REFERENCES cells ON DELETE CASCADE,
    stream text NOT NULL CONSTRAINT ck_journal_positions_stream CHECK (stream IN ('auth', 'acct')),
    segment text NOT NULL,
    "offset" bigint NOT NULL CONSTRAINT ck_journal_positions_offset CHECK ("offset" >= 0),
    open_conversations jsonb NOT NULL DEFAULT '{}',
    updated_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT pk_journal_positions PRIMARY KEY (cell_id, stream)
) WITH (fillfactor = 50);

-- Records of a journal that could not be stored, kept in the transaction that moves the position past them: exactly once.
CREATE TABLE quarantined_records (
    id bigint CONSTRAINT pk_quarantined_records PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    cell_id int NOT NULL CONSTRAINT fk_quarantined_records_cell_id REFERENCES cells ON DELETE CASCADE,
    stream text NOT NULL CONSTRAINT ck_quarantined_records_stream CHECK (stream IN ('auth', 'acct')),
    tenant_id uuid, -- NULL where the record cannot be read; no reference, since a tenant that is gone may be the reason
    why text NOT NULL,
    payload bytea NOT NULL,
    at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX ix_quarantined_records_cell_id_stream_id ON quarantined_records (cell_id, stream, id);
CREATE INDEX ix_quarantined_records_tenant_id ON quarantined_records (tenant_id);

-- An agent that starts for the first time has no id yet that row-level security could go by.
-- A name that another host's agent used within a minute stays that agent's, which `held_by` then names.
CREATE FUNCTION register_cell(cell_name text, cell_host text, OUT cell_id int, OUT held_by text)
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    INSERT INTO cells AS known (name, host, agent_seen_at) VALUES (cell_name, cell_host, now())
    ON CONFLICT (name) DO UPDATE SET host = excluded.host, agent_seen_at = excluded.agent_seen_at
    WHERE known.host IN (excluded.host, '') OR known.agent_seen_at IS NULL OR known.agent_seen_at < now() - interval '60 s'
    RETURNING id INTO cell_id;
    IF cell_id IS NULL THEN
        SELECT host INTO held_by FROM cells WHERE name = cell_name;
    END IF;
END
$$;
