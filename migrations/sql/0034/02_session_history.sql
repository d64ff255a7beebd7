-- A session of long ago by its id, as lists and other systems name it: without it every row of the tenant is read.
CREATE INDEX ix_session_history_tenant_id_id ON session_history (tenant_id, id);

-- What a record that was set aside for days is about may be in the history by now: it is put back among the sessions that
-- records are merged into, and moved away again in time. A cell cannot take anything else out of the history.
CREATE FUNCTION recall_sessions(
    tenants uuid[], nases text[], ids text[], stations text[], earliest timestamptz[], latest timestamptz[]
) RETURNS bigint
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    recalled bigint;
BEGIN
    PERFORM set_config('admit.recalls', 'on', true);
    WITH asked AS MATERIALIZED (
        SELECT a.* FROM unnest(tenants, nases, ids, stations, earliest, latest)
            AS a (tenant_id, nas_key, session_id, mac_key, earliest, latest)
        WHERE a.tenant_id IN (SELECT s.tenant_id FROM slots s WHERE s.cell_id = scope_cell_id())
    ), found AS MATERIALIZED (
        SELECT DISTINCT h.tenant_id, h.stopped_at, h.id
        FROM asked a CROSS JOIN LATERAL (
            SELECT e.tenant_id, e.stopped_at, e.id FROM session_history e
            WHERE e.tenant_id = a.tenant_id AND e.session_id = a.session_id AND e.nas_key = a.nas_key
                AND e.mac_key = a.mac_key AND e.started_at BETWEEN a.earliest AND a.latest
                -- Leaves out partitions.
                AND e.stopped_at >= a.earliest
                AND NOT EXISTS (
                    SELECT FROM sessions s
                    WHERE s.tenant_id = e.tenant_id AND s.nas_key = e.nas_key AND s.session_id = e.session_id
                        AND s.mac_key = e.mac_key AND s.started_at = e.started_at
                )
            -- The nearest; few have the same id within minutes.
            ORDER BY e.started_at DESC LIMIT 5
        ) h
    ), gone AS (
        DELETE FROM session_history h USING found f
        WHERE h.tenant_id = f.tenant_id AND h.stopped_at = f.stopped_at AND h.id = f.id
        RETURNING h.*
    )
    INSERT INTO sessions (
        id, tenant_id, nas_key, session_id, mac_key, started_at, site_id, nas_id, nas_address, nas_port, mac, identity,
        framed_ip, framed_ipv6, framed_prefix, delegated_prefix, class, cui, updated_at, stopped_at, session_seconds,
        input_octets, output_octets, terminate_cause, flags, usage_hour, settled_seconds, settled_input, settled_output
    ) OVERRIDING SYSTEM VALUE
    -- Of what has ended all is told in usage_hours.
    SELECT id, tenant_id, nas_key, session_id, mac_key, started_at, site_id, nas_id, nas_address, nas_port, mac, identity,
        framed_ip, framed_ipv6, framed_prefix, delegated_prefix, class, cui, updated_at, stopped_at, session_seconds,
        input_octets, output_octets, terminate_cause, flags, date_trunc('hour', updated_at, 'UTC'),
        coalesce(session_seconds, 0), coalesce(input_octets, 0), coalesce(output_octets, 0)
    FROM gone;
    GET DIAGNOSTICS recalled = ROW_COUNT;
    PERFORM set_config('admit.recalls', 'off', true);
    RETURN recalled;
END
$$;
REVOKE EXECUTE ON FUNCTION recall_sessions(uuid[], text[], text[], text[], timestamptz[], timestamptz[]) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION recall_sessions(uuid[], text[], text[], text[], timestamptz[], timestamptz[]) TO admit_cell;

-- What is put back has begun and ended long ago.
DROP TRIGGER note_begun ON sessions;
CREATE TRIGGER note_begun AFTER INSERT ON sessions REFERENCING NEW TABLE AS added
    FOR EACH STATEMENT WHEN (current_setting('admit.recalls', true) IS DISTINCT FROM 'on') EXECUTE FUNCTION note_sessions();

-- What ended lately at a site or a NAS, the last one first.
CREATE INDEX ix_sessions_ended_site ON sessions (tenant_id, site_id, stopped_at DESC, id DESC) WHERE stopped_at IS NOT NULL;
CREATE INDEX ix_sessions_ended_nas ON sessions (tenant_id, nas_id, stopped_at DESC, id DESC) WHERE stopped_at IS NOT NULL;
