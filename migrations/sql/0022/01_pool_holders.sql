ALTER TABLE pool_addresses
    -- Its last device does not get it back: it was taken away from it, or others may have had it since. Yet a session of that
    -- device that turns up may hold it.
    ADD COLUMN released boolean NOT NULL DEFAULT false;
GRANT UPDATE (released) ON pool_addresses TO admit_cell;

-- Whether a NAS tells an address or prefix that a device can have. One of those that none can (RFC 6890; 255.255.255.254 and
-- .255 ask for one, RFC 2865 5.8; 169.254.0.0/16 and fe80::/10 are a device's own choice) tells as much as none.
CREATE FUNCTION tells_address(told inet) RETURNS boolean
    LANGUAGE sql IMMUTABLE AS $$
    SELECT told IS NOT NULL AND NOT told <<= ANY (
        '{0.0.0.0/8, 127.0.0.0/8, 169.254.0.0/16, 224.0.0.0/3, ::/96, ::ffff:0:0/96, fe80::/10, ff00::/8}'::inet[]
    ) AND NOT told >>= '::/96'
$$;

-- The live sessions that hold an address of a pool: first those of the device that was given it last, which tell of it or of
-- none, then anybody's that tell of it. No row: nobody holds it.
CREATE FUNCTION pool_address_holders(of_tenant uuid, of_kind text, of_address inet, of_mac macaddr)
    RETURNS TABLE (mac macaddr)
    LANGUAGE sql STABLE AS $$
    SELECT s.mac FROM sessions s CROSS JOIN LATERAL (
        SELECT CASE of_kind WHEN 'ipv4' THEN s.framed_ip WHEN 'ipv6' THEN s.framed_prefix ELSE s.delegated_prefix END AS address
    ) told
    WHERE s.tenant_id = of_tenant AND s.mac = of_mac AND s.stopped_at IS NULL
        AND (told.address = of_address OR tells_address(told.address) IS NOT TRUE)
    UNION ALL
    SELECT s.mac FROM sessions s
    WHERE s.tenant_id = of_tenant AND s.framed_ip = of_address AND s.stopped_at IS NULL AND of_kind = 'ipv4'
    UNION ALL
    SELECT s.mac FROM sessions s
    WHERE s.tenant_id = of_tenant AND s.framed_prefix = of_address AND s.stopped_at IS NULL AND of_kind = 'ipv6'
    UNION ALL
    SELECT s.mac FROM sessions s
    WHERE s.tenant_id = of_tenant AND s.delegated_prefix = of_address AND s.stopped_at IS NULL AND of_kind = 'delegated'
$$;
REVOKE EXECUTE ON FUNCTION tells_address(inet), pool_address_holders(uuid, text, inet, macaddr) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION tells_address(inet), pool_address_holders(uuid, text, inet, macaddr)
    TO admit_app, admit_worker, admit_cell;
