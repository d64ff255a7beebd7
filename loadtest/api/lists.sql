-- What the lists of the API are made of: rows of every table that one reads, in the tenants of the table `bench_tenants`
-- (t, id, site, nas), the first of which are the largest. Run by the superuser with session_replication_role = replica:
-- no trigger, no reference. `bench.share` is how much of each table there is to be; bench.steepness how unequal they are.
CREATE FUNCTION pg_temp.most(rows int) RETURNS int LANGUAGE sql STABLE AS
    $$ SELECT ceil(rows * current_setting('bench.share')::float)::int $$;
-- The same for the same number, so that rows of one table are of those of another.
CREATE FUNCTION pg_temp.id(kind int, n bigint) RETURNS uuid LANGUAGE sql IMMUTABLE AS
    $$ SELECT (lpad(to_hex(kind), 8, '0') || '-0000-4000-8000-' || lpad(to_hex(n), 12, '0'))::uuid $$;

CREATE TEMP TABLE pick AS
SELECT n, t, b.id AS tenant, b.sites[1 + n % 4] AS site, b.nases[1 + n % 20] AS nas,
    ('02' || lpad(to_hex(t), 4, '0') || lpad(to_hex(n), 6, '0'))::macaddr AS mac,
    date_trunc('second', now()) - n * interval '1 second' AS at, pg_temp.id(1, n) AS endpoint, pg_temp.id(2, n) AS person,
    'user-' || n || '@example.com' AS name, '10.0.0.0'::inet + n AS address, (SELECT id FROM msps WHERE slug = 'bench') AS msp
FROM (
    SELECT n, 1 + width_bucket((n * 7919::bigint % 1000003)::float / 1000003, (SELECT current_setting('bench.shares')::float[])) AS t
    FROM generate_series(1, pg_temp.most(500000)) n
) a JOIN bench_tenants b USING (t);
ANALYZE pick;

-- Platform and MSP.
INSERT INTO msps (id, slug, name) SELECT gen_random_uuid(), 'msp-' || n, 'MSP ' || n % 50 FROM generate_series(1, pg_temp.most(2000)) n;
INSERT INTO tenants (id, msp_id, slug, name, status)
SELECT gen_random_uuid(), CASE WHEN n % 4 = 0 THEN (SELECT id FROM msps WHERE slug = 'bench') ELSE pg_temp.id(3, n) END,
    'empty-' || n, 'Empty ' || n % 300, CASE WHEN n % 50 = 0 THEN 'suspended' ELSE 'active' END
FROM generate_series(1, pg_temp.most(4000)) n;
INSERT INTO sign_ups (id, email, domain, organisation, expires_at, state)
SELECT pg_temp.id(4, n), 'trial-' || n || '@example.com', 'example.com', 'Trial ' || n, now(), 'done' FROM generate_series(1, pg_temp.most(4000)) n;
INSERT INTO trials (tenant_id, sign_up_id, organisation, email, state, ends_at, purged_at, most_endpoints, most_authentications, created_at)
SELECT t.id, pg_temp.id(4, n), 'Trial ' || n, 'trial-' || n || '@example.com', CASE WHEN n % 3 = 0 THEN 'ended' ELSE 'running' END,
    now() + n * interval '1 minute', now() + interval '1 year', 50, 1000, now()
FROM (SELECT id, row_number() OVER (ORDER BY id) AS n FROM tenants WHERE slug LIKE 'empty-%') t;
INSERT INTO people (id, email, name, created_at)
SELECT person, 'person-' || n || '@example.com', 'Person ' || n, at FROM pick WHERE n <= pg_temp.most(20000);
INSERT INTO memberships (id, person_id, tenant_id, msp_id, role, created_by, created_at, accepted_at)
SELECT gen_random_uuid(), person, CASE WHEN n % 10 > 1 THEN tenant END, CASE WHEN n % 10 = 0 THEN msp END,
    CASE n % 10 WHEN 0 THEN 'msp-technician' WHEN 1 THEN 'platform-operator' ELSE 'auditor' END, 'bench', at, at
FROM pick WHERE n <= pg_temp.most(20000);
INSERT INTO api_tokens (id, public_id, secret_sha256, name, tenant_id, msp_id, permissions, expires_at, created_by, created_at, revoked_at)
SELECT gen_random_uuid(), left(md5(n::text), 16), '\x00', 'token-' || n, CASE WHEN n % 10 > 1 THEN tenant END,
    CASE WHEN n % 10 = 0 THEN msp END, '{endpoint.read}', now() + interval '1 year', 'bench', at, CASE WHEN n % 4 = 0 THEN now() END
FROM pick WHERE n <= pg_temp.most(20000) AND (n % 10 <> 1 OR n < 1000);
INSERT INTO jobs (id, tenant_id, msp_id, kind, title, state, requested_by, created_at, started_at, ended_at)
SELECT gen_random_uuid(), CASE WHEN n % 20 > 1 THEN tenant END, CASE WHEN n % 20 = 0 THEN msp END,
    (ARRAY['tenant.export', 'import.apply'])[1 + n / 7 % 2], 'A job', CASE WHEN n % 50 = 0 THEN 'failed' ELSE 'done' END, 'bench', at, at, at
FROM pick WHERE n <= pg_temp.most(20000);
INSERT INTO audit_log (at, actor, tenant_id, msp_id, action, target, address, request_id, after)
SELECT at, 'token:t' || n % 20, CASE WHEN n % 20 > 1 THEN tenant END, CASE WHEN n % 20 <> 1 THEN msp END,
    (ARRAY['endpoint.add', 'endpoint.change', 'user.add', 'nas.add'])[1 + n % 4], mac::text, '192.0.2.7', 'request-' || n, '{}'
FROM pick WHERE n <= pg_temp.most(300000);
INSERT INTO templates (id, msp_id, slug, name, newest)
SELECT pg_temp.id(5, n), (SELECT id FROM msps WHERE slug = 'bench'), 'template-' || n, 'Template ' || n, 50 FROM generate_series(1, 20) n;
INSERT INTO template_versions (template_id, number, msp_id, document, created_by)
SELECT pg_temp.id(5, n), v, (SELECT id FROM msps WHERE slug = 'bench'), '{"endpoint_groups": ["printers"]}', 'bench' FROM generate_series(1, 20) n, generate_series(1, 50) v;
INSERT INTO template_tenants (tenant_id, msp_id, template_id, version, applied_at)
SELECT id, msp_id, pg_temp.id(5, 1), number % 3, now() FROM tenants WHERE msp_id = (SELECT id FROM msps WHERE slug = 'bench');
INSERT INTO rollouts (id, msp_id, template_id, version, state, stages, most_moved, requested_by, created_at, ended_at)
SELECT gen_random_uuid(), msp, pg_temp.id(5, 1 + n % 2), 1, 'done', '[]', 0, 'bench', at, at FROM pick WHERE n <= pg_temp.most(5000);

-- Tenants.
INSERT INTO sites (id, tenant_id, slug, name, time_zone)
SELECT gen_random_uuid(), tenant, 'branch-' || n, 'Branch ' || n % 500, 'Europe/Berlin' FROM pick
-- So many that nobody reads all of them for the name of one.
WHERE n <= greatest(600, pg_temp.most(4000));
INSERT INTO nases (id, tenant_id, site_id, name, identifier, address, vendor)
SELECT gen_random_uuid(), tenant, site, 'ap-' || n, 'ap-' || n, address, (ARRAY['cisco', 'aruba', ''])[1 + n % 3]
FROM pick WHERE n <= pg_temp.most(16000);
INSERT INTO endpoint_groups (id, tenant_id, name)
SELECT pg_temp.id(6, t * 8 + g), id, 'group-' || g FROM bench_tenants, generate_series(0, 7) g;
INSERT INTO user_groups (id, tenant_id, name)
SELECT pg_temp.id(7, t * 8 + g), id, 'group-' || g FROM bench_tenants, generate_series(0, 7) g;
INSERT INTO endpoints (id, tenant_id, mac, name, status, attributes, owner, notes, created_at, vendor, found_profile, found_confidence,
    found_why, os, model, set_profile, posture)
SELECT endpoint, tenant, mac, 'Printer ' || n % 5000,
    CASE WHEN n % 10 = 0 THEN 'discovered' WHEN n % 97 = 0 THEN 'blocked' WHEN n % 89 = 0 THEN 'ignored' ELSE 'active' END,
    '{}', 'team-' || n % 40, '', at, (ARRAY['Cisco Systems', 'HP Inc.', 'Apple', 'Axis'])[1 + n % 4],
    CASE WHEN n % 3 = 0 THEN 'printer' ELSE 'phone' END, 80, '[]', '', '', '', '{}'
FROM pick WHERE n <= pg_temp.most(300000);
INSERT INTO endpoint_sightings (tenant_id, mac, last_seen_at, site_id, nas_id, nas_port, ssid, method, identity, permitted, times)
SELECT tenant, mac, at, site, nas, 'Gi1/0/1', '', 'mab', '', true, 7 FROM pick WHERE n <= pg_temp.most(300000);
INSERT INTO endpoint_group_members (endpoint_id, group_id, tenant_id)
SELECT endpoint, pg_temp.id(6, t * 8 + CASE WHEN n % 400 = 0 THEN 6 ELSE n % 5 END), tenant FROM pick WHERE n <= pg_temp.most(100000);
INSERT INTO users (id, tenant_id, name, disabled, password_hash, created_at)
SELECT person, tenant, name, n % 500 = 0,
    '$argon2id$v=19$m=19456,t=2,p=1$p08hrPR30FzXa4sh8XfU1g$iexKppQir0TJJ3388cOWT9R6eOTWL97s8w2cApGmSc8', at
FROM pick WHERE n <= pg_temp.most(50000);
INSERT INTO user_group_members (user_id, group_id, tenant_id)
SELECT person, pg_temp.id(7, t * 8 + CASE WHEN n % 400 = 0 THEN 6 ELSE n % 5 END), tenant FROM pick WHERE n <= pg_temp.most(50000);
INSERT INTO certificate_authorities (id, tenant_id, kind, name, subject, certificate_der, key_sealed, key_id, status, not_before,
    not_after, revocation_reason, key_store)
SELECT pg_temp.id(8, t), id, 'issuing', 'Issuing', 'CN=Issuing ' || t, '\x00', '\x00', decode(lpad(to_hex(t), 8, '0'), 'hex'), 'active',
    now(), now() + interval '5 years', '', 'sealed' FROM bench_tenants;
INSERT INTO certificates (id, tenant_id, authority_id, serial, profile, common_name, subject, certificate_der, status,
    revocation_reason, not_before, not_after, created_at, endpoint_id, user_id)
SELECT gen_random_uuid(), tenant, pg_temp.id(8, t), decode('01' || lpad(to_hex(n), 8, '0'), 'hex'),
    CASE WHEN n % 500 = 0 THEN 'eap-client-user' ELSE 'eap-client-device' END, 'laptop-' || n % 5000, '', '\x00',
    CASE WHEN n % 200 = 0 THEN 'suspended' WHEN n % 30 = 0 THEN 'revoked' ELSE 'valid' END, '', at,
    at + n % 20 * interval '36 days', at, CASE WHEN n % 2 = 0 THEN endpoint END, CASE WHEN n % 2 = 1 THEN person END
FROM pick WHERE n <= pg_temp.most(100000);
INSERT INTO enrolment_secrets (id, tenant_id, public_id, kind, name, secret_sha256, profile, expires_at, created_by, created_at)
SELECT gen_random_uuid(), tenant, md5(n::text), 'link', 'link-' || n, '\x00', 'eap-client-device', now() + interval '1 day', 'bench', at
FROM pick WHERE n <= pg_temp.most(20000);
INSERT INTO policies (id, tenant_id, slug, name, published_version)
SELECT pg_temp.id(9, t), id, 'office', 'Office', 1 FROM bench_tenants;
INSERT INTO policies (id, tenant_id, slug, name, published_version)
SELECT gen_random_uuid(), tenant, 'policy-' || n, 'Policy ' || n % 500, CASE WHEN n % 100 = 0 THEN 1 END FROM pick
-- So many that nobody reads all of them for the name of one.
WHERE n <= greatest(600, pg_temp.most(4000));
INSERT INTO policy_versions (id, tenant_id, policy_id, number, document, status, comment, published_at, created_at)
SELECT gen_random_uuid(), tenant, pg_temp.id(9, t), row_number() OVER (PARTITION BY t ORDER BY n), '{"rules": []}', 'published', '', at, at
FROM pick WHERE n <= pg_temp.most(20000);
INSERT INTO policy_hits (tenant_id, policy_id, version, rule_id, day, hits, last_at)
SELECT tenant, pg_temp.id(9, t), 1, 'r' || n % 400, at::date - n / 400 % 30, 7, at FROM pick WHERE n <= pg_temp.most(40000)
ON CONFLICT DO NOTHING;
INSERT INTO decision_counts (tenant_id, seconds, start_at, permitted, quarantined, rejected)
SELECT id, seconds, to_timestamp((extract(epoch FROM now())::bigint / seconds - n) * seconds), 70, 0, 30
FROM bench_tenants, unnest('{60,3600}'::int[]) seconds, generate_series(0, 120) n;
INSERT INTO reject_counts (tenant_id, seconds, start_at, reason, rejected)
SELECT tenant_id, seconds, start_at, 'reason-' || r, 10 FROM decision_counts, generate_series(1, 3) r;
INSERT INTO nas_sightings (nas_id, tenant_id, last_seen_at)
SELECT n.id, n.tenant_id, now() - t * interval '10 minutes' FROM bench_tenants b JOIN nases n ON n.tenant_id = b.id;
INSERT INTO pools (id, tenant_id, name, kind, ranges, prefix_length)
SELECT pg_temp.id(10, t), id, 'office', 'ipv4', '{10.0.0.0/12}', 32 FROM bench_tenants;
INSERT INTO pool_addresses (tenant_id, pool_id, number, address, state, mac, decided_at, until)
SELECT tenant, pg_temp.id(10, t), n, address, CASE WHEN n % 5 > 0 THEN 'leased' ELSE 'free' END, CASE WHEN n % 5 > 0 THEN mac END, at,
    now() + interval '1 hour' FROM pick WHERE n <= pg_temp.most(60000);
INSERT INTO secret_rotations (id, tenant_id, ends_at, started_by, opened_at)
SELECT pg_temp.id(11, t), id, now() + interval '1 day', 'bench', now() FROM bench_tenants;
INSERT INTO secret_sightings (rotation_id, tenant_id, nas_key, source, old_at)
SELECT pg_temp.id(11, t), tenant, 'key-' || n, address, now() FROM pick WHERE n <= pg_temp.most(20000);
INSERT INTO self_tests (id, tenant_id, state, requested_by, created_at, ended_at, passed)
SELECT gen_random_uuid(), tenant, 'done', 'bench', at, at, true FROM pick WHERE n <= pg_temp.most(20000);
INSERT INTO feeds (id, tenant_id, slug, kind, settings, sources, done)
SELECT gen_random_uuid(), id, 'feed-' || n, 'webhook', '{"url": "https://siem.example/"}', '{decision}', '1:1:'
FROM bench_tenants, generate_series(1, 5) n;
INSERT INTO redecisions (tenant_id, scope, state, created_at, ended_at)
SELECT tenant, 'some', CASE WHEN n % 400 = 0 THEN 'stopped' ELSE 'done' END, at, at FROM pick WHERE n <= pg_temp.most(20000);
INSERT INTO export_jobs (tenant_id, log, since, until, format, state, requested_by, done_until, created_at)
SELECT tenant, 'auth', at - interval '1 day', at, 'csv', CASE WHEN n % 400 = 0 THEN 'failed' ELSE 'done' END, 'bench', at, at
FROM pick WHERE n <= pg_temp.most(20000);
INSERT INTO coa_requests (tenant_id, session_row, session_id, nas_id, nas_address, mac, identity, reason, certificate_serial, state, created_at)
SELECT tenant, n, to_hex(n), nas, '192.0.2.7', mac, name, (ARRAY['requested', 'endpoint-blocked', 'requested'])[1 + n % 3], '',
    CASE WHEN n % 400 = 0 THEN 'refused' ELSE 'acknowledged' END, at FROM pick WHERE n <= pg_temp.most(100000);

-- Logs and sessions: of as many live ones as ended ones, most are in the history.
INSERT INTO sessions (tenant_id, nas_key, session_id, mac_key, started_at, site_id, nas_id, nas_address, mac, identity, framed_ip,
    updated_at, stopped_at, session_seconds, input_octets, output_octets, terminate_cause, flags, nas_port, usage_hour)
SELECT tenant, 'switch-' || n % 20 || '|192.0.2.7', to_hex(n), mac::text, at, site, nas, '192.0.2.7', mac, name, address, now(),
    CASE WHEN n > pg_temp.most(300000) THEN at + interval '1 hour' END, 3600, n, n, '',
    CASE WHEN n > pg_temp.most(300000) AND n % 20 = 0 THEN '{stale}'::text[] ELSE '{}' END, 'Gi1/0/1', date_trunc('hour', now())
FROM pick WHERE n <= pg_temp.most(400000);
INSERT INTO session_history (tenant_id, stopped_at, id, nas_key, session_id, mac_key, started_at, site_id, nas_id, nas_address, nas_port,
    mac, identity, identity_key, framed_ip, class, cui, updated_at, session_seconds, input_octets, output_octets, terminate_cause, flags)
SELECT tenant, at, 10000000 + n, 'switch-' || n % 20 || '|192.0.2.7', 'h' || to_hex(n), mac::text, at - interval '1 hour', site, nas,
    '192.0.2.7', 'Gi1/0/1', mac, name, lower(name), address, '', '', at, 3600, n, n, 'User-Request', '{}'
FROM pick WHERE n <= pg_temp.most(200000);
INSERT INTO usage_hours (tenant_id, hour, session_row, site_id, nas_id, mac, identity, seconds, input_octets, output_octets, nas_key)
SELECT tenant, date_trunc('hour', at), n, site, nas, mac, name, 3600, n, n, 'switch-' || n % 20 FROM pick WHERE n <= pg_temp.most(300000);
INSERT INTO auth_log (tenant_id, at, cell_id, site_id, nas_id, nas_address, nas_identifier, nas_port, mac, identity, method, permitted,
    reason, detail, rule_id, rule_name, policy_id, policy_version, vlan, reply, certificate_serial, tls_version, resumed, request,
    module_microseconds, suppressed, verdict, identity_key)
SELECT tenant, at, 1, site, nas, '192.0.2.7', 'switch-' || n % 20, 'Gi1/0/1', mac, name, (ARRAY['mab', 'eap-tls'])[1 + n % 2],
    n % 33 > 0, CASE WHEN n % 33 > 0 THEN 'rule-permitted' ELSE 'unknown-user' END, '', 'r', 'Rule', tenant, 7, '20', '[]', '', '', false,
    '{"mac": ["020000000000"]}', 90, 0, CASE WHEN n % 33 > 0 THEN 'permit' ELSE 'deny' END, name
FROM pick WHERE n <= pg_temp.most(200000);
INSERT INTO accounting_log (tenant_id, at, cell_id, site_id, nas_id, nas_address, status_type, session_id, mac, identity,
    session_seconds, input_octets, output_octets, terminate_cause, attributes)
SELECT tenant, at, 1, site, nas, '192.0.2.7', (ARRAY['Start', 'Interim-Update', 'Interim-Update', 'Stop'])[1 + n % 4], to_hex(n), mac, name,
    3600, n, n, '', '{}'
FROM pick;
INSERT INTO log_sizes (tenant_id, log, day, rows, bytes)
SELECT id, l.log, current_date - d, 1000, 1000000
FROM bench_tenants, unnest(ARRAY['auth', 'accounting', 'sessions', 'usage']) l (log), generate_series(0, 89) d;
DROP TABLE pick;
