CREATE OR REPLACE FUNCTION tell_coa_requests() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify('coa_requests', '');
    RETURN NULL;
END
$$;

-- Queues disconnects for new sessions of blocked devices and revoked certificates, and returns
-- their number. Only for tenants of the calling cell. The revocation may be old, because a
-- disconnected cell reports sessions hours later. The cell must first have all changes.
CREATE OR REPLACE FUNCTION end_refused_sessions(tenants uuid[], macs macaddr[], classes text[]) RETURNS int
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    refused jsonb;
    asked int;
BEGIN
    WITH begun AS MATERIALIZED (
        SELECT b.tenant_id, b.mac, b.class FROM unnest(tenants, macs, classes) AS b (tenant_id, mac, class)
        WHERE b.tenant_id IN (SELECT s.tenant_id FROM slots s WHERE s.cell_id = scope_cell_id())
    ), revoking AS MATERIALIZED (
        -- Usually no revocation is newer than the first of these decisions. Clocks of cells can differ by an hour.
        SELECT t.tenant_id FROM (
            SELECT b.tenant_id, least(now(), min(CASE WHEN b.class ~ '^0x410[0-9a-f]{15}$'
                THEN to_timestamp(('x' || substr(b.class, 5))::bit(64)::bigint::float8 / 1e6) END)) AS first_at
            FROM begun b GROUP BY b.tenant_id
        ) t WHERE EXISTS (
            SELECT FROM certificates c WHERE c.tenant_id = t.tenant_id AND c.status IN ('suspended', 'revoked')
                AND c.revoked_at > t.first_at - interval '1 hour'
        )
    ), found AS (
        SELECT b.tenant_id, b.mac, 'endpoint-blocked' AS reason, '' AS serial
        FROM begun b JOIN endpoints e ON e.tenant_id = b.tenant_id AND e.mac = b.mac AND e.status = 'blocked'
        UNION
        SELECT b.tenant_id, b.mac, 'certificate-' || c.status, a.certificate_serial
        FROM begun b JOIN revoking r ON r.tenant_id = b.tenant_id
        -- The Class of a decision: its time in epoch microseconds (nac.cellformat.packet_values).
        JOIN auth_log a ON a.tenant_id = b.tenant_id AND a.mac = b.mac AND a.permitted
            AND b.class ~ '^0x41[0-9a-f]{16}$' AND a.certificate_serial ~ '^([0-9a-f]{2})+$'
            AND a.at = to_timestamp(('x' || substr(b.class, 5))::bit(64)::bigint::float8 / 1e6)
        JOIN certificates c ON c.tenant_id = a.tenant_id AND c.status IN ('suspended', 'revoked')
            AND c.serial = CASE WHEN a.certificate_serial ~ '^([0-9a-f]{2})+$'
                THEN ltrim(decode(a.certificate_serial, 'hex'), '\x00'::bytea) END
    )
    SELECT jsonb_agg(jsonb_build_object(
        'tenant_id', f.tenant_id, 'mac', f.mac::text, 'reason', f.reason, 'serial', f.serial
    )) INTO refused FROM found f;
    -- Without rows, no insert: its trigger would wake all agents.
    IF refused IS NULL THEN
        RETURN 0;
    END IF;
    INSERT INTO coa_requests (
        tenant_id, session_row, session_id, nas_id, nas_address, nas_key, nas_port, mac, identity, framed_ip, kind,
        reason, after_xact, expires_at, certificate_serial
    )
    SELECT s.tenant_id, s.id, s.session_id, s.nas_id, s.nas_address, s.nas_key, s.nas_port, s.mac, s.identity,
        s.framed_ip, 'disconnect', r.reason, unfollowed_change(s.tenant_id), now() + interval '1 day', r.serial
    FROM jsonb_to_recordset(refused) AS r (tenant_id uuid, mac macaddr, reason text, serial text)
    JOIN sessions s ON s.tenant_id = r.tenant_id AND s.mac = r.mac AND s.stopped_at IS NULL
    -- A request with another reason can be withdrawn on its own.
    WHERE NOT EXISTS (
        SELECT FROM coa_requests c WHERE c.tenant_id = s.tenant_id AND c.session_row = s.id AND c.kind = 'disconnect'
            AND (c.state = 'acknowledged' OR (c.state IN ('queued', 'sending') AND c.reason = r.reason))
    )
    ON CONFLICT (tenant_id, session_row, kind, reason) WHERE state = 'queued' AND kind <> 'change' DO NOTHING;
    GET DIAGNOSTICS asked = ROW_COUNT;
    RETURN asked;
END
$$;
GRANT EXECUTE ON FUNCTION end_refused_sessions TO admit_cell;
