-- How many sessions of a device or name are live: counted for tenants whose policies ask, by what is being shipped.
-- Hash indexes, which serve no query but for one device or name.
CREATE INDEX ix_sessions_live_mac ON sessions USING hash (mac) WHERE stopped_at IS NULL;
CREATE INDEX ix_sessions_live_identity ON sessions USING hash (lower(identity)) WHERE stopped_at IS NULL;

-- Of a tenant of the cell that asks. Behind row-level security lower() would not reach the index: it is not leakproof.
CREATE FUNCTION live_session_counts(tenant uuid, macs macaddr[], names text[]) RETURNS TABLE (key text, live bigint)
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    -- Not with NOT IN, which a free slot (NULL) would make unknown.
    IF NOT EXISTS (SELECT FROM slots s WHERE s.cell_id = scope_cell_id() AND s.tenant_id = tenant) THEN
        RETURN;
    END IF;
    RETURN QUERY
    SELECT 'm' || replace(s.mac::text, ':', ''), count(*) FROM sessions s
    WHERE s.stopped_at IS NULL AND s.mac = ANY (macs) AND s.tenant_id = tenant GROUP BY s.mac
    UNION ALL
    SELECT 'u' || lower(s.identity), count(*) FROM sessions s
    WHERE s.stopped_at IS NULL AND lower(s.identity) = ANY (names) AND s.tenant_id = tenant GROUP BY lower(s.identity);
END
$$;

-- A key is 'm' and an address, or 'u' and a name. Cells tell of their own tenants alone.
CREATE FUNCTION tell_session_changes(tenants uuid[], keys text[]) RETURNS void
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    INSERT INTO replica_changes (tenant_id, noun, key)
    SELECT DISTINCT told.tenant_id, 'session', told.key FROM unnest(tenants, keys) AS told (tenant_id, key)
    WHERE told.tenant_id IN (SELECT s.tenant_id FROM slots s WHERE s.cell_id = scope_cell_id());
    PERFORM pg_notify('replica_changes', '');
END
$$;
REVOKE EXECUTE ON FUNCTION tell_session_changes(uuid[], text[]), live_session_counts(uuid, macaddr[], text[]) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION tell_session_changes(uuid[], text[]), live_session_counts(uuid, macaddr[], text[]) TO admit_cell;
