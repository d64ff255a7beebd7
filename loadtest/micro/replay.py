"""How fast recorded requests are replayed: python -m loadtest.micro.replay [requests]

Fills the auth log of a private cluster with a week of an office (50,000 devices, MAB, EAP-TLS and PAP, some 25
attributes a request), replays a 20-rule policy over it in this one process, and prints seconds and where they went.
For one core, PostgreSQL's part included: taskset -c 0 python -m loadtest.micro.replay
"""

import resource
import sys
import time
from uuid import UUID, uuid4

import psycopg
from psycopg.types.json import Jsonb

from loadtest.micro.engine import RULES, document
from nac.engine.dictionary import read_dictionary, to_json
from nac.kit.db import CellScope, TenantScope, make_engine, session_scope
from nac.kit.ids import CellId, TenantId
from nac.policies.comparison import ReplayBaseline
from nac.policies.replays import Replay, replay_policy
from nac.tenancy.cells import service as cells
from radius.agent.cell import DICTIONARY_FILE
from tests.postgres import Cluster, Database

DEVICES = 50_000
_SITES = 4
_DAYS = 7
# A device asks for one of the groups of the policy's rules, or of five that no rule knows.
_REQUESTS = """
INSERT INTO auth_log (
    at, tenant_id, cell_id, site_id, nas_id, nas_address, nas_identifier, nas_port, mac, identity, method, permitted,
    reason, rule_id, rule_name, policy_id, policy_version, vlan, reply, request
)
SELECT
    now() - (%(count)s - n) * interval '7 days' / (%(count)s + 1), %(tenant)s, 1, sites[1 + n %% 4], nas, '192.0.2.7',
    'switch-' || n %% 40, 'Gi1/0/' || n %% 48, mac::macaddr, mac, method, permitted,
    CASE WHEN permitted THEN 'rule-permitted' ELSE 'fallback-denied' END,
    CASE WHEN permitted THEN 'r' || grp ELSE '' END, CASE WHEN permitted THEN 'Rule ' || grp ELSE '' END,
    %(policy)s, 1, CASE WHEN permitted THEN (100 + grp)::text ELSE '' END,
    '[["Tunnel-Type:1", ":=", "VLAN"], ["Tunnel-Medium-Type:1", ":=", "IEEE-802"]]',
    jsonb_build_object(
        'radius.User-Name', ARRAY[mac], 'radius.NAS-IP-Address', ARRAY['192.0.2.7'],
        'radius.NAS-Identifier', ARRAY['switch-' || n %% 40],
        'radius.NAS-Port-Id', ARRAY['GigabitEthernet1/0/' || n %% 48], 'radius.NAS-Port-Type', ARRAY['Ethernet'],
        'radius.Service-Type', ARRAY['Call-Check'], 'radius.Called-Station-Id', ARRAY['00-10-A4-23-19-C0'],
        'radius.Calling-Station-Id', ARRAY[mac], 'radius.Framed-MTU', ARRAY['1500'],
        'radius.NAS-Port', ARRAY[(50000 + n %% 48)::text], 'radius.Cisco-AVPair', ARRAY['session-id=' || md5(n::text)]
    ) || jsonb_build_object(
        'mac', ARRAY[mac], 'mac.random', ARRAY[false], 'nas.identifier', ARRAY['switch-' || n %% 40],
        'nas.address', ARRAY['192.0.2.7'], 'nas.port_type', ARRAY['Ethernet'], 'method', ARRAY[method],
        'identity', ARRAY[mac], 'site.name', ARRAY['Site ' || n %% 4], 'nas.name', ARRAY['sw-' || n %% 40],
        'nas.vendor', ARRAY['cisco'], 'endpoint.known', ARRAY[true], 'endpoint.name', ARRAY['device ' || device],
        'endpoint.group', ARRAY['floor-' || device %% 7, 'group-' || grp],
        'endpoint.attribute.owner', ARRAY['person ' || device %% 500]
    ) || CASE method
        WHEN 'eap-tls' THEN jsonb_build_object(
            'certificate.common_name', ARRAY['device-' || device], 'certificate.profile', ARRAY['eap-client-device'],
            'certificate.issuer', ARRAY['/O=Office/CN=Office issuing CA'], 'tls.version', ARRAY['1.3'],
            'certificate.san.dns', ARRAY['device-' || device || '.office.example'], 'tls.resumed', ARRAY[true])
        WHEN 'pap' THEN jsonb_build_object('user.name', ARRAY['user ' || device], 'user.group', ARRAY['staff'])
        ELSE '{}' END
FROM generate_series(1, %(count)s) n,
    LATERAL (SELECT n::bigint * 7919 %% %(devices)s AS device, %(sites)s::uuid[] AS sites, %(nas)s::uuid AS nas) a,
    LATERAL (
        SELECT lpad(to_hex(device), 12, '0') AS mac, device %% 25 AS grp,
            (ARRAY['mab', 'mab', 'mab', 'eap-tls', 'pap'])[1 + device / 25 %% 5] AS method
    ) b,
    LATERAL (SELECT method = 'mab' AND grp < 20 AS permitted) c
"""


def changed_policy(before: dict[str, object]) -> dict[str, object]:
    """The policy with another VLAN in one rule and one rule more: a draft as people make them."""
    rules = [dict(rule) for rule in before["rules"]]  # type: ignore[attr-defined]
    rules[3]["then"] = rules[3]["then"] | {"vlan": "999"}
    when = {"attribute": "certificate.san.dns", "operator": "ends_with", "value": ".office.example"}
    rules.append({"id": "laptops", "name": "Laptops", "when": when, "then": {"verdict": "permit", "vlan": "50"}})
    return before | {"rules": rules}


def per_device_policy(before: dict[str, object]) -> dict[str, object]:
    """The same with a rule that looks at what no two devices share: next to nothing is remembered twice."""
    rules = [dict(rule) for rule in before["rules"]]  # type: ignore[attr-defined]
    when = {"attribute": "radius.Cisco-AVPair", "operator": "ends_with", "value": "=0"}
    rules.append({"id": "odd", "name": "Odd", "when": when, "then": {"verdict": "permit"}})
    return before | {"rules": rules}


def prepare(database: Database, count: int) -> tuple[TenantId, UUID]:
    tenant, policy = TenantId(uuid4()), uuid4()
    with psycopg.connect(database.superuser_url, autocommit=True) as connection:
        connection.execute("INSERT INTO msps (slug, name) VALUES ('msp', 'MSP')")
        connection.execute(
            "INSERT INTO tenants (id, msp_id, slug, name) SELECT %s, id, 'office', 'Office' FROM msps", (tenant,)
        )
        cell = connection.execute("INSERT INTO cells (name, host) VALUES ('cell', 'here') RETURNING id").fetchone()
        assert cell is not None
        connection.execute(
            "INSERT INTO slots (cell_id, number, auth_port, acct_port, secret_sealed, status, tenant_id) "
            "VALUES (%s, 0, 1812, 1813, '', 'assigned', %s)",
            (cell[0], tenant),
        )
        connection.execute(
            "INSERT INTO policies (id, tenant_id, slug, name) VALUES (%s, %s, 'main', 'Main')", (policy, tenant)
        )
        connection.execute(
            "INSERT INTO policy_versions (tenant_id, policy_id, number, document, status) "
            "VALUES (%s, %s, 1, %s, 'published')",
            (tenant, policy, Jsonb(document(RULES))),
        )
        connection.execute("UPDATE policies SET published_version = 1")
        connection.execute(
            "INSERT INTO endpoint_groups (tenant_id, name) SELECT %s, 'group-' || n FROM generate_series(0, %s) n",
            (tenant, RULES),
        )
        sites = [uuid4() for _ in range(_SITES)]
        for number, site in enumerate(sites):
            connection.execute(
                "INSERT INTO sites (id, tenant_id, slug, name, policy_id) VALUES (%s, %s, %s, %s, %s)",
                (site, tenant, f"site-{number}", f"Site {number}", policy),
            )
        values = {
            "count": count,
            "tenant": tenant,
            "policy": policy,
            "nas": uuid4(),
            "devices": DEVICES,
            "sites": sites,
        }
        connection.execute("SELECT ensure_log_partitions((now() AT TIME ZONE 'UTC')::date - 7, 9)")
        connection.execute(_REQUESTS, values)
        connection.execute("VACUUM ANALYZE auth_log")
    engine = make_engine(database.cell_url)
    with session_scope(CellScope(CellId(cell[0])), engine=engine) as session:
        content = to_json(read_dictionary(DICTIONARY_FILE))
        cells.upload_dictionary(session, cell_id=CellId(cell[0]), content=content, server_version="-")
    engine.dispose()
    return tenant, policy


def measure(database: Database, tenant: TenantId, policy: UUID, draft: object, against: ReplayBaseline) -> Replay:
    engine = make_engine(database.app_url, pool_size=1)
    started, cpu = time.perf_counter(), time.process_time()
    with session_scope(TenantScope(tenant), engine=engine) as session:
        found = replay_policy(
            session, tenant_id=tenant, document=draft, policy_id=policy, days=_DAYS + 1, against=against
        )
    seconds, own = time.perf_counter() - started, time.process_time() - cpu
    engine.dispose()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"  {found.total:,} requests in {seconds:.1f} s ({seconds / found.total * 1e6:.1f} us each; {own:.1f} s of CPU "
        f"here, the rest PostgreSQL's): {found.changed:,} changed in {found.groups} groups, peak {peak:.0f} MB"
    )
    return found


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    before = document(RULES)
    cluster = Cluster()
    try:
        cluster.start()
        database = cluster.create_database()
        tenant, policy = prepare(database, count)
        print("a draft of 21 rules, against what was recorded")
        measure(database, tenant, policy, changed_policy(before), "recorded")
        print("the same against what is in force")
        measure(database, tenant, policy, changed_policy(before), "published")
        print("a draft that reads what no two requests share")
        measure(database, tenant, policy, per_device_policy(before), "recorded")
    finally:
        cluster.remove()


if __name__ == "__main__":
    main()
