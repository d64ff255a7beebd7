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
