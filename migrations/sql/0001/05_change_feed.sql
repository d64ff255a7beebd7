-- Agents follow this table by transaction id: new is what is visible now and was not in the snapshot read last.
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

-- Bare hex of MAC addresses and bytea, as agents and replica spell them.
CREATE FUNCTION replica_change_key(noun text, value text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE noun WHEN 'endpoint' THEN replace(value, ':', '') WHEN 'certificate' THEN substr(value, 3) ELSE value END
$$;

-- record_replica_change(noun, key column): a row for the new key, and one for the old where key, tenant or cell changed.
CREATE FUNCTION record_replica_change() RETURNS trigger
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

-- record_member_change(noun, table, key column, reference): a membership is part of its member's record.
CREATE FUNCTION record_member_change() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    row_value jsonb := coalesce(to_jsonb(NEW), to_jsonb(OLD));
BEGIN
    -- A member that goes itself is not found here any more: its own trigger has told.
    EXECUTE format(
        'INSERT INTO replica_changes (tenant_id, noun, key) '
        'SELECT tenant_id, $1, replica_change_key($1, %I::text) FROM %I WHERE id = $2',
        TG_ARGV[2], TG_ARGV[1]
    ) USING TG_ARGV[0], (row_value ->> TG_ARGV[3])::uuid;
    PERFORM pg_notify('replica_changes', '');
    RETURN NULL;
END
$$;

DO $$
DECLARE
    mirrored text[];
BEGIN
    FOREACH mirrored SLICE 1 IN ARRAY ARRAY[
        ['tenants', 'tenant', 'id'],
        ['slots', 'slot', 'number'],
        ['sites', 'site', 'id'],
        ['nases', 'nas', 'id'],
        ['endpoints', 'endpoint', 'mac'],
        ['users', 'user', 'name'],
        ['certificate_authorities', 'authority', 'id'],
        ['certificates', 'certificate', 'serial'],
        ['policies', 'policy', 'id']
    ] LOOP
        EXECUTE format(
            'CREATE TRIGGER replica_change AFTER INSERT OR DELETE ON %I FOR EACH ROW EXECUTE FUNCTION record_replica_change(%L, %L)',
            mirrored[1], mirrored[2], mirrored[3]
        );
        EXECUTE format(
            'CREATE TRIGGER replica_update AFTER UPDATE ON %I FOR EACH ROW WHEN (OLD.* IS DISTINCT FROM NEW.*) '
            'EXECUTE FUNCTION record_replica_change(%L, %L)',
            mirrored[1], mirrored[2], mirrored[3]
        );
    END LOOP;
END
$$;
CREATE TRIGGER replica_change AFTER INSERT OR UPDATE ON policy_versions
    FOR EACH ROW WHEN (NEW.status = 'published') EXECUTE FUNCTION record_replica_change('policy', 'policy_id');
CREATE TRIGGER replica_change AFTER INSERT OR DELETE ON endpoint_group_members
    FOR EACH ROW EXECUTE FUNCTION record_member_change('endpoint', 'endpoints', 'mac', 'endpoint_id');
CREATE TRIGGER replica_change AFTER INSERT OR DELETE ON user_group_members
    FOR EACH ROW EXECUTE FUNCTION record_member_change('user', 'users', 'name', 'user_id');
