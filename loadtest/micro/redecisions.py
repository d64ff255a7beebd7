"""Speed of re-decisions of live sessions: python -m loadtest.micro.redecisions [sessions]

Fills a private cluster with sessions of one tenant and the decisions that they go by, and has a run look at them after
a policy that moves every tenth to another VLAN.
"""

import json
import resource
import sys
import time
from uuid import UUID

import psycopg
from sqlalchemy import Engine

from loadtest.micro.journal_shipping import make_cell
from nac.kit.db import TenantScope, make_engine, session_scope
from nac.kit.ids import TenantId
from nac.redecisions import runner
from nac.redecisions.settings import TenantRedecisionSettings
from tests.postgres import Cluster, Database

_GROUPS = 20
_FILL = """
WITH device AS (
    SELECT n, lpad(to_hex(n), 12, '0')::macaddr AS mac, now() - n * interval '1 millisecond' AS at
    FROM generate_series(1, %(count)s) n
), endpoint AS (
    INSERT INTO endpoints (id, tenant_id, mac, name)
    SELECT gen_random_uuid(), %(tenant)s, mac, 'device ' || n FROM device RETURNING id, mac
), member AS (
    INSERT INTO endpoint_group_members (tenant_id, endpoint_id, group_id)
    SELECT %(tenant)s, e.id, g.id FROM endpoint e JOIN device d ON d.mac = e.mac
    JOIN endpoint_groups g ON g.name = 'g' || d.n %% %(groups)s
), log AS (
    INSERT INTO auth_log (
        tenant_id, at, cell_id, nas_identifier, nas_address, nas_port, mac, identity, method, permitted, reason, detail,
        rule_id, rule_name, policy_version, vlan, reply, certificate_serial, tls_version, resumed, request,
        module_microseconds, suppressed, verdict, policy_id
    )
    SELECT %(tenant)s, at, 1, 'nas-' || n %% 50, '192.0.2.1', '', mac, '', 'mab', true, 'rule-permitted', '', 'r', 'r',
        1, '2' || n %% %(groups)s, json_build_array(
            json_build_array('Tunnel-Type:1', ':=', 'VLAN'), json_build_array('Tunnel-Medium-Type:1', ':=', 'IEEE-802'),
            json_build_array('Tunnel-Private-Group-Id:1', ':=', '2' || n %% %(groups)s)
        ), '', '', false, json_build_object(
            'method', ARRAY['mab'], 'mac', ARRAY[replace(mac::text, ':', '')], 'identity', ARRAY[''],
            'nas.identifier', ARRAY['nas-' || n %% 50], 'nas.address', ARRAY['192.0.2.1']
        ), 20, 0, 'permit', %(policy)s
    FROM device
)
INSERT INTO sessions (tenant_id, nas_key, session_id, mac_key, mac, started_at, updated_at, class)
SELECT %(tenant)s, 'nas-' || n %% 50 || '|192.0.2.1', 's' || n, mac::text, mac, at, at,
    '0x41' || lpad(to_hex((date_part('epoch', at) * 1e6)::bigint), 16, '0')
FROM device
"""


def _policy(groups_moved: int) -> str:
    """Each group has a VLAN of its own; the first so many are moved."""
    rules = [
        {
            "id": f"r{group}",
            "name": f"r{group}",
            "when": {"attribute": "endpoint.group", "operator": "equals", "value": f"g{group}"},
            "then": {"verdict": "permit", "vlan": f"{3 if group < groups_moved else 2}{group}"},
        }
        for group in range(_GROUPS)
    ]
    return json.dumps({"rules": rules, "fallback": {"verdict": "deny"}})


def fill(database: Database, tenant: UUID, count: int) -> None:
    with psycopg.connect(database.superuser_url, autocommit=True) as connection:
        row = connection.execute(
            "INSERT INTO policies (id, tenant_id, slug, name, published_version) "
            "VALUES (gen_random_uuid(), %s, 'p', 'P', 1) RETURNING id",
            (tenant,),
        ).fetchone()
        assert row is not None
        connection.execute(
            "INSERT INTO policy_versions (id, tenant_id, policy_id, number, document, status) "
            "VALUES (gen_random_uuid(), %s, %s, 1, %s, 'published')",
            (tenant, row[0], _policy(_GROUPS // 10)),
        )
        site = connection.execute(
            "INSERT INTO sites (id, tenant_id, slug, name, policy_id) "
            "VALUES (gen_random_uuid(), %s, 'main', 'Main', %s) RETURNING id",
            (tenant, row[0]),
        ).fetchone()
        assert site is not None
        connection.execute("UPDATE tenants SET default_site_id = %s WHERE id = %s", (site[0], tenant))
        connection.execute(
            "INSERT INTO endpoint_groups (id, tenant_id, name) SELECT gen_random_uuid(), %s, 'g' || n "
            "FROM generate_series(0, %s) n",
            (tenant, _GROUPS - 1),
        )
        given = {"tenant": tenant, "count": count, "groups": _GROUPS, "policy": row[0]}
        connection.execute("SET session_replication_role = replica")
        connection.execute(_FILL, given)
        connection.execute("ANALYZE")


def run(engine: Engine, tenant_id: TenantId) -> None:
    with session_scope(TenantScope(tenant_id), engine=engine) as session:
        number = runner.create_run(session, tenant_id=tenant_id, cause="measured").id
    before = _memory_mb()
    started, cpu, pages, longest = time.perf_counter(), time.process_time(), 0, 0.0
    more = True
    while more:
        began = time.perf_counter()
        with session_scope(TenantScope(tenant_id), engine=engine) as session:
            more = runner.advance_tenant(session, tenant_id=tenant_id)
        pages, longest = pages + 1, max(longest, time.perf_counter() - began)
    seconds, own = time.perf_counter() - started, time.process_time() - cpu
    with session_scope(TenantScope(tenant_id), engine=engine) as session:
        found = runner.repository.get(session, tenant_id, number)
        assert found is not None
        print(
            f"{found.sessions} sessions in {seconds:.2f} s: {found.sessions / seconds:,.0f}/s, "
            f"{own / found.sessions * 1e6:.0f} us of the worker's CPU a session; {pages} transactions, the longest "
            f"{longest:.2f} s; memory grew by {_memory_mb() - before} MB"
        )
        print(
            f"{found.reauthentications} to reauthenticate, {found.disconnects} to disconnect, {found.undecidable} "
            f"cannot be decided, state {found.state} at {TenantRedecisionSettings().per_second} a second"
        )


def _memory_mb() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 50_000
    cluster = Cluster()
    try:
        cluster.start()
        database = cluster.create_database()
        _, tenants = make_cell(database)
        fill(database, tenants[0], count)
        engine = make_engine(database.worker_url, pool_size=1, application_name="admit-redecide")
        try:
            run(engine, TenantId(tenants[0]))
        finally:
            engine.dispose()
    finally:
        cluster.remove()


if __name__ == "__main__":
    main()
