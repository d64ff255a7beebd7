-- Only for tenants of the calling cell. A policy that limits sessions reads the counts.
CREATE OR REPLACE FUNCTION live_session_counts(tenant uuid, macs macaddr[], names text[])
    RETURNS TABLE (key text, live bigint)
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    -- Not NOT IN: a free slot (NULL) would make it unknown.
    IF NOT EXISTS (SELECT FROM slots s WHERE s.cell_id = scope_cell_id() AND s.tenant_id = tenant) THEN
        RETURN;
    END IF;
    RETURN QUERY
    SELECT 'm' || replace(s.mac::text, ':', ''), count(*) FROM sessions s
    WHERE s.stopped_at IS NULL AND s.mac = ANY (macs) AND s.tenant_id = tenant GROUP BY s.mac
    UNION ALL
    SELECT 'u' || s.identity_key, count(*) FROM sessions s
    WHERE s.stopped_at IS NULL AND s.identity_key = ANY (names) AND s.tenant_id = tenant GROUP BY s.identity_key;
END
$$;
GRANT EXECUTE ON FUNCTION live_session_counts TO admit_cell;

-- A key is 'm' and a MAC address, or 'u' and a name. Only for tenants of the calling cell.
CREATE OR REPLACE FUNCTION tell_session_changes(tenants uuid[], keys text[]) RETURNS void
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    INSERT INTO replica_changes (tenant_id, noun, key)
    SELECT DISTINCT change.tenant_id, 'session', change.key FROM unnest(tenants, keys) AS change (tenant_id, key)
    WHERE change.tenant_id IN (SELECT s.tenant_id FROM slots s WHERE s.cell_id = scope_cell_id());
    PERFORM pg_notify('replica_changes', '');
END
$$;
GRANT EXECUTE ON FUNCTION tell_session_changes TO admit_cell;

-- A quarantined record may concern a session that is already in the history. This moves the
-- session back, so that the record can be merged. The worker moves it to the history again
-- later. A cell can move nothing else out of the history.
CREATE OR REPLACE FUNCTION recall_sessions(
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
                -- Excludes partitions.
                AND e.stopped_at >= a.earliest
                AND NOT EXISTS (
                    SELECT FROM sessions s
                    WHERE s.tenant_id = e.tenant_id AND s.nas_key = e.nas_key AND s.session_id = e.session_id
                        AND s.mac_key = e.mac_key AND s.started_at = e.started_at
                )
            -- The nearest. Few sessions have the same id within minutes.
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
    -- usage_hours already has all values of ended sessions.
    SELECT id, tenant_id, nas_key, session_id, mac_key, started_at, site_id, nas_id, nas_address, nas_port, mac,
        identity, framed_ip, framed_ipv6, framed_prefix, delegated_prefix, class, cui, updated_at, stopped_at,
        session_seconds, input_octets, output_octets, terminate_cause, flags, date_trunc('hour', updated_at, 'UTC'),
        coalesce(session_seconds, 0), coalesce(input_octets, 0), coalesce(output_octets, 0)
    FROM gone;
    GET DIAGNOSTICS recalled = ROW_COUNT;
    PERFORM set_config('admit.recalls', 'off', true);
    RETURN recalled;
END
$$;
GRANT EXECUTE ON FUNCTION recall_sessions TO admit_cell;

-- Live sessions of several tenants with an IP address, as search_endpoints.
CREATE OR REPLACE FUNCTION search_sessions(tenants uuid[], wanted inet, most int)
    RETURNS TABLE (
        tenant_id uuid, id bigint, mac macaddr, identity text, nas_key text, nas text, nas_port text,
        started_at timestamptz
    )
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = public, pg_temp SET plan_cache_mode = force_custom_plan AS $$
#variable_conflict use_column
BEGIN
    tenants := tenants_in_scope(tenants);
    RETURN QUERY
    SELECT s.tenant_id, s.id, s.mac, s.identity, s.nas_key, n.name, s.nas_port, s.started_at
    FROM (
        SELECT s.* FROM unnest(tenants) t (id) CROSS JOIN LATERAL (
            SELECT s.* FROM sessions s
            WHERE s.tenant_id = t.id AND s.framed_ip = wanted AND s.stopped_at IS NULL LIMIT most
        ) s
        UNION ALL
        SELECT s.* FROM unnest(tenants) t (id) CROSS JOIN LATERAL (
            SELECT s.* FROM sessions s
            WHERE s.tenant_id = t.id AND s.framed_ipv6 = wanted AND s.framed_ipv6 IS NOT NULL
                AND s.stopped_at IS NULL LIMIT most
        ) s
        WHERE family(wanted) = 6
    ) s
    LEFT JOIN LATERAL (SELECT n.name FROM nases n WHERE n.id = s.nas_id LIMIT 1) n ON true
    ORDER BY s.started_at DESC, s.id DESC LIMIT most;
END
$$;
GRANT EXECUTE ON FUNCTION search_sessions TO admit_app;
