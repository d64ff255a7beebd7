-- Whatever has an end that somebody must know of: authorities, and certificates of servers and clients that no later one
-- of the same name and profile has succeeded. Who asks sees what row-level security lets through.
CREATE VIEW expiring WITH (security_invoker = true) AS
SELECT a.tenant_id, 'authority' AS kind, a.id, '' AS serial, a.name, a.kind AS profile, a.not_before, a.not_after
FROM certificate_authorities a
WHERE a.status = 'active' OR (a.status = 'retired' AND a.kind = 'root')
UNION ALL
SELECT
    c.tenant_id, CASE WHEN c.profile IN ('eap-server', 'radsec-server') THEN 'server' ELSE 'client' END, c.id,
    encode(c.serial, 'hex'), c.common_name, c.profile, c.not_before, c.not_after
FROM certificates c
WHERE c.status = 'valid'
    AND c.profile IN ('eap-server', 'radsec-server', 'eap-client-user', 'eap-client-device', 'radsec-nas')
    AND NOT EXISTS (
        SELECT FROM certificates later
        WHERE later.tenant_id = c.tenant_id AND later.common_name = c.common_name AND later.profile = c.profile
            AND later.status = 'valid' AND later.not_after > c.not_after
    );
GRANT SELECT ON expiring TO admit_app, admit_worker;
