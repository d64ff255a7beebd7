-- As before. Where sessions were analysed when all had ended, or never, the planner takes every partial index of live ones
-- for as good as another, and read all of a tenant's for each address. An order that only one of them has decides between
-- them where nothing may be sorted, which cells see to; of a column that is equal to a value there would be none, hence
-- BETWEEN (docs/adr/0014).
CREATE OR REPLACE FUNCTION pool_address_holders(of_tenant uuid, of_kind text, of_address inet, of_mac macaddr)
    RETURNS TABLE (mac macaddr)
    LANGUAGE sql STABLE AS $$
    (
        SELECT s.mac FROM sessions s CROSS JOIN LATERAL (
            SELECT CASE of_kind WHEN 'ipv4' THEN s.framed_ip WHEN 'ipv6' THEN s.framed_prefix ELSE s.delegated_prefix END AS address
        ) told
        WHERE s.tenant_id = of_tenant AND s.mac BETWEEN of_mac AND of_mac AND s.stopped_at IS NULL
            AND (told.address = of_address OR tells_address(told.address) IS NOT TRUE)
        ORDER BY s.mac
    ) UNION ALL (
        SELECT s.mac FROM sessions s
        WHERE s.tenant_id = of_tenant AND s.framed_ip BETWEEN of_address AND of_address AND s.stopped_at IS NULL
            AND of_kind = 'ipv4'
        ORDER BY s.framed_ip
    ) UNION ALL (
        SELECT s.mac FROM sessions s
        WHERE s.tenant_id = of_tenant AND s.framed_prefix BETWEEN of_address AND of_address AND s.stopped_at IS NULL
            AND of_kind = 'ipv6'
        ORDER BY s.framed_prefix
    ) UNION ALL (
        SELECT s.mac FROM sessions s
        WHERE s.tenant_id = of_tenant AND s.delegated_prefix BETWEEN of_address AND of_address AND s.stopped_at IS NULL
            AND of_kind = 'delegated'
        ORDER BY s.delegated_prefix
    )
$$;
