-- Row-level security cannot identify a new agent, because it has no id yet. If another host's
-- agent used the name within a minute, the name stays with it. `held_by` then has that host.
CREATE OR REPLACE FUNCTION register_cell(cell_name text, cell_host text, OUT cell_id int, OUT held_by text)
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    INSERT INTO cells AS known (name, host, agent_seen_at) VALUES (cell_name, cell_host, now())
    ON CONFLICT (name) DO UPDATE SET host = excluded.host, agent_seen_at = excluded.agent_seen_at
    WHERE known.host IN (excluded.host, '') OR known.agent_seen_at IS NULL
        OR known.agent_seen_at < now() - interval '60 s'
    RETURNING id INTO cell_id;
    IF cell_id IS NULL THEN
        SELECT host INTO held_by FROM cells WHERE name = cell_name;
    END IF;
END
$$;
GRANT EXECUTE ON FUNCTION register_cell TO admit_cell;

-- Records that a cell ships after their tenant has moved go to the tenant's new cell.
CREATE OR REPLACE FUNCTION hand_over_record() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    UPDATE quarantined_records q SET cell_id = s.cell_id, handed_over = true
    FROM slots s
    WHERE q.id = NEW.id AND s.tenant_id = NEW.tenant_id AND s.cell_id <> NEW.cell_id AND EXISTS (
        SELECT FROM tenant_moves m
        WHERE m.tenant_id = NEW.tenant_id AND m.switched_at IS NOT NULL
            AND NEW.cell_id IN (m.from_cell_id, m.to_cell_id)
    );
    RETURN NULL;
END
$$;

-- Quarantined records follow their tenant to each new cell, because only its cell can ship them.
-- This includes the return after a cancelled move.
CREATE OR REPLACE FUNCTION take_records_along() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    UPDATE quarantined_records SET cell_id = NEW.cell_id, handed_over = true
    WHERE tenant_id = NEW.tenant_id AND cell_id <> NEW.cell_id;
    RETURN NULL;
END
$$;
