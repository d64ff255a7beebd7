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

-- MAC addresses and bytea as bare hex, as in agents and replica.
CREATE OR REPLACE FUNCTION replica_change_key(noun text, value text) RETURNS text
    LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE noun
        WHEN 'endpoint' THEN replace(value, ':', '')
        WHEN 'certificate' THEN substr(value, 3)
        ELSE value END
$$;

-- record_replica_change(noun, key column): a row for the new key. If key, tenant or cell
-- changed, also one for the old.
CREATE OR REPLACE FUNCTION record_replica_change() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    noun text := TG_ARGV[0];
    tenant_column text := CASE noun WHEN 'tenant' THEN 'id' ELSE 'tenant_id' END;
BEGIN
    INSERT INTO replica_changes (tenant_id, cell_id, noun, key)
    SELECT DISTINCT
        (row_value ->> tenant_column)::uuid,
        (row_value ->> 'cell_id')::int,
        noun,
        replica_change_key(noun, row_value ->> TG_ARGV[1])
    FROM unnest(ARRAY[to_jsonb(OLD), to_jsonb(NEW)]) AS row_value
    WHERE row_value IS NOT NULL;
    PERFORM pg_notify('replica_changes', '');
    RETURN NULL;
END
$$;

-- record_member_change(noun, table, key column, reference): a member's record includes its
-- memberships.
CREATE OR REPLACE FUNCTION record_member_change() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    row_value jsonb := coalesce(to_jsonb(NEW), to_jsonb(OLD));
BEGIN
    -- A deleted member has no row here. Its own trigger records it.
    EXECUTE format(
        'INSERT INTO replica_changes (tenant_id, noun, key) '
        'SELECT tenant_id, $1, replica_change_key($1, %I::text) FROM %I WHERE id = $2',
        TG_ARGV[2], TG_ARGV[1]
    ) USING TG_ARGV[0], (row_value ->> TG_ARGV[3])::uuid;
    PERFORM pg_notify('replica_changes', '');
    RETURN NULL;
END
$$;
