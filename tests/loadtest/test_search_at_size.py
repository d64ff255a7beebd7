"""Search across 1,000 tenants: the plans of the functions that read several tenants.

The functions have the owner's rights, so EXPLAIN of a request does not show their plans. auto_explain does.
"""

import json
from collections.abc import Iterator

import psycopg
import pytest
from sqlalchemy import Engine

from api.main import create_app
from loadtest.api import data_set
from nac.helpdesk import search
from nac.helpdesk.search import KIND_PERMISSIONS, SearchText
from nac.kit.db import MspScope, PlatformScope, Scope, driver_connection, make_engine, session_scope
from nac.kit.ids import TenantId
from tests.api.app_server import serve_app, settings_of_public
from tests.postgres import Cluster, Database
from tests.run_depth import is_whole

pytestmark = pytest.mark.early

TENANTS = 1_000
DEVICES = 200_000 if is_whole() else 40_000
ROWS_OF_DAY = 200_000 if is_whole() else 20_000
DAYS = search.LOG_DAYS if is_whole() else 2
_SETTINGS = {
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "autovacuum": "off",
    "shared_buffers": "256MB",
    "maintenance_work_mem": "128MB",
}
# Of each row, the number `n` also determines the tenant. The first half of the tenants stays with the MSP `bench`.
_FILL = """
SET session_replication_role = replica;
INSERT INTO msps (slug, name) VALUES ('other', 'Other');
UPDATE tenants SET msp_id = (SELECT id FROM msps WHERE slug = 'other') WHERE substr(slug, 7)::int > {half};
CREATE TEMP TABLE pick AS
SELECT n, t.id AS tenant, ('02' || lpad(to_hex(n), 10, '0'))::macaddr AS mac, '10.0.0.0'::inet + n AS address
FROM generate_series(1, {devices}) n JOIN tenants t ON t.slug = 'bench-' || 1 + n * 7919::bigint % {tenants};
INSERT INTO endpoints (tenant_id, mac, name)
SELECT tenant, mac, CASE WHEN n % 3 = 0 THEN 'Printer ' || n ELSE 'Laptop ' || n END FROM pick;
INSERT INTO endpoint_sightings (tenant_id, mac, last_seen_at) SELECT tenant, mac, now() FROM pick;
INSERT INTO users (tenant_id, name, password_hash) SELECT tenant, 'User-' || n || '@example.com', '' FROM pick;
INSERT INTO certificates (tenant_id, authority_id, serial, profile, common_name, subject, certificate_der, status,
    not_before, not_after)
SELECT tenant, tenant, decode('01' || md5(n::text), 'hex'), 'eap-client-device', 'Device-' || n, '', '\\x00', 'valid',
    now(), now()
FROM pick;
INSERT INTO sessions (tenant_id, nas_key, session_id, mac_key, started_at, mac, identity, framed_ip, updated_at)
SELECT tenant, 'switch-1|', n::text, '', now(), mac, 'user-' || n, address, now() FROM pick;
"""
# Each text with the kind of its first hit. The first letters of all names are the same.
TEXTS = {
    "020000000007": "endpoint",
    "02:00:00:00": "endpoint",
    "02ffffffffff": "",
    "Laptop 77": "endpoint",
    "lap": "endpoint",
    "zzz": "",
    "user-77@example.com": "user",
    "user": "user",
    "switch-3": "nas",
    "10.0.0.77": "session",
    "0128dd2c79": "certificate",
    "device-77": "certificate",
    "de": "certificate",
}
_EXPLAIN = {
    "log_min_duration": "0",
    "log_nested_statements": "on",
    "log_analyze": "on",
    "log_timing": "off",
    "log_format": "json",
    "log_level": "notice",
}
# Reading a smaller table completely is fast enough: tenants, and sites of the first hits.
_SMALL_ROWS = 5_000
# Rows that one node of a plan may read. A search reads at most 1,000 rows of each kind, and 50 rows of a tenant.
_MOST_ROWS = 5_000


@pytest.fixture(scope="module")
def filled() -> Iterator[Database]:
    cluster = Cluster(**_SETTINGS)
    try:
        cluster.start()
        database = cluster.create_database("loadtest_search")
        tenants = data_set.make_tenants(database.superuser_url, TENANTS)
        with psycopg.connect(database.superuser_url, autocommit=True) as connection:
            fill = _FILL.format(half=TENANTS // 2, devices=DEVICES, tenants=TENANTS)
            for statement in fill.split(";\n"):
                connection.execute(statement.encode())
            connection.execute("VACUUM (ANALYZE)")
        filling = {"rows": ROWS_OF_DAY * DAYS, "days": DAYS, "different": 2, "has_requests": False}
        data_set.fill_auth_log(database.superuser_url, tenants, log_line=print, **filling)
        yield database
    finally:
        cluster.remove()


def _read_plans(engine: Engine, scope: Scope, words: str, tenant_ids: list[TenantId]) -> Iterator[dict]:
    """Yield the nodes of all plans of a search, also of statements within functions."""
    plans: list[dict] = []
    wanted = SearchText.parse(words)
    with session_scope(scope, engine=engine) as session:
        connection = driver_connection(session)
        connection.add_notice_handler(
            lambda notice: plans.append(json.loads((notice.message_primary or "").partition("plan:\n")[2])["Plan"])
        )
        connection.execute("LOAD 'auto_explain'")
        for name, value in _EXPLAIN.items():
            connection.execute("SELECT set_config(%s, %s, true)", (f"auto_explain.{name}", value))
        hits = [
            hit
            for kind in KIND_PERMISSIONS
            for hit in search.find_hits(session, kind, wanted, tenant_ids=tenant_ids, limit=20)
        ]
        search.add_decisions(session, wanted, hits, tenant_ids=tenant_ids, limit=20)
    while plans:
        node = plans.pop()
        yield node
        plans += node.get("Plans", ())


@pytest.mark.parametrize("msps", [("bench",), ("bench", "other")], ids=["msp", "platform"])
def test_search_reads_no_large_table_completely(filled: Database, msps: tuple[str, ...]) -> None:
    with psycopg.connect(filled.superuser_url) as connection:
        rows = connection.execute(
            "SELECT t.id, m.id FROM tenants t JOIN msps m ON m.id = t.msp_id WHERE m.slug = ANY (%s)", (list(msps),)
        ).fetchall()
    assert len(rows) == TENANTS // 2 * len(msps)
    scope = MspScope(rows[0][1]) if len(msps) == 1 else PlatformScope()
    engine = make_engine(filled.superuser_url)
    scanned, most = set(), {}
    for words in (*TEXTS, "020100000003"):
        for node in _read_plans(engine, scope, words, [row[0] for row in rows]):
            number = (node["Actual Rows"] + node.get("Rows Removed by Filter", 0)) * node["Actual Loops"]
            if node["Node Type"] == "Seq Scan" and number > _SMALL_ROWS:
                scanned.add((words, node["Relation Name"]))
            if "Relation Name" in node:
                most[words] = max(most.get(words, 0), number)
    engine.dispose()
    assert scanned == set()
    assert {words: rows for words, rows in most.items() if rows > _MOST_ROWS} == {}


def test_best_hit_has_the_expected_kind(filled: Database, tmp_path) -> None:
    engine = make_engine(filled.app_url)
    token = data_set.make_platform_token(engine)
    engine.dispose()
    app = create_app(settings_of_public(filled, tmp_path))
    # The rows of the log are random. Its devices are not registered.
    with psycopg.connect(filled.superuser_url) as connection:
        (mac,) = connection.execute("SELECT mac FROM auth_log WHERE at < now() ORDER BY at DESC LIMIT 1").fetchone()
    expected = TEXTS | {mac: "decision"}
    found = {}
    with serve_app(app) as client:
        client.headers["Authorization"] = f"Bearer {token}"
        for words in expected:
            items = client.get("/v1/search", params={"text": words}).raise_for_status().json()["items"]
            found[words] = items[0]["kind"] if items else ""
    assert found == expected
