-- By statement, because a list of 100,000 serials arrives in one.
CREATE OR REPLACE FUNCTION record_external_statuses() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    INSERT INTO replica_changes (tenant_id, noun, key)
    SELECT tenant_id, 'external-status', authority_id || ':' || encode(serial, 'hex') FROM changed;
    PERFORM pg_notify('replica_changes', '');
    RETURN NULL;
END
$$;

-- The worker processes one tenant at a time.
CREATE OR REPLACE FUNCTION tenants_with_external_authorities() RETURNS SETOF uuid
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
    SELECT DISTINCT tenant_id FROM status_sources
$$;
GRANT EXECUTE ON FUNCTION tenants_with_external_authorities TO admit_worker;
