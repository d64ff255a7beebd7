"""Creates the test data of the API load tests: tenants of very unequal sizes, and their logs.

The logs have a year of authentications and a million live sessions.
"""

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import date, timedelta
from importlib.resources import files
from itertools import accumulate, cycle
from uuid import UUID

import psycopg
from psycopg import sql
from sqlalchemy import Engine

from nac.accounts import api_tokens
from nac.core.access.grants import Owner
from nac.kit.clock import utc_now
from nac.kit.db import PlatformScope, session_scope
from nac.kit.permissions import PermissionLevel, permissions_at

# The n-th tenant has 1/n^1.1 of the first tenant's rows. Of 200 tenants, the first has a fifth of all rows.
_STEEPNESS = 1.1
_ROWS_OF_A_DEVICE = 400
_SITES, _NASES = 4, 20
# Number of a device that each tenant has, and that appears only on the first day of the log.
LOST_DEVICE = 0xFFFFFF

_TENANTS = """
WITH m AS (INSERT INTO msps (id, slug, name) VALUES (gen_random_uuid(), 'bench', 'Bench') RETURNING id),
t AS (
    INSERT INTO tenants (id, msp_id, slug, name)
    SELECT gen_random_uuid(), m.id, 'bench-' || n, 'Bench ' || n FROM m, generate_series(1, %(count)s) n
    RETURNING id, slug
),
s AS (
    INSERT INTO sites (id, tenant_id, slug, name)
    SELECT gen_random_uuid(), t.id, CASE n WHEN 0 THEN 'main' ELSE 'site-' || n END, 'Site ' || n
    FROM t, generate_series(0, %(sites)s - 1) n
    RETURNING id, tenant_id, slug
),
n AS (
    INSERT INTO nases (id, tenant_id, site_id, name, identifier)
    SELECT gen_random_uuid(), s.tenant_id, s.id, 'switch-' || n, 'switch-' || n
    FROM s, generate_series(1, %(nases)s) n WHERE s.slug = 'main'
    RETURNING id, tenant_id, identifier
)
SELECT t.id, t.slug, (SELECT array_agg(s.id) FROM s WHERE s.tenant_id = t.id),
    (SELECT array_agg(n.id) FROM n WHERE n.tenant_id = t.id)
FROM t ORDER BY length(t.slug), t.slug
"""
# Devices as in offices: a few devices authenticate often. Of the authentications, 70 % are MAB, 20 % EAP-TLS and 10 %
# PEAP; 3 % are rejects.
_COLUMNS = """
    tenant_id, cell_id, site_id, nas_id, nas_address, nas_identifier, nas_port, mac, identity, method, permitted,
    reason, detail, rule_id, rule_name, policy_id, policy_version, vlan, reply, certificate_serial, tls_version,
    resumed, request, module_microseconds, verdict, identity_key, common_name_key
"""
_AUTH_ROWS = """
INSERT INTO {partition} (at, {columns})
SELECT
    %(day)s::timestamptz + n * interval '1 day' / (%(rows)s + 1), tenants[t], 1, sites[t * 4 - device %% 4],
    nases[t * 20 - device %% 20], '192.0.2.7', 'switch-' || 20 - device %% 20, 'Gi1/0/' || device %% 48,
    mac::macaddr, name, method, permitted,
    CASE WHEN permitted THEN 'rule-permitted' WHEN device %% 2 = 0 THEN 'fallback-denied' ELSE 'unknown-user' END, '',
    CASE WHEN permitted THEN 'r' || device %% 20 ELSE '' END,
    CASE WHEN permitted THEN 'Rule ' || device %% 20 ELSE '' END, tenants[t], 7,
    CASE WHEN permitted THEN (100 + device %% 20)::text ELSE '' END,
    {reply},
    CASE method WHEN 'eap-tls' THEN md5(mac) ELSE '' END, CASE method WHEN 'mab' THEN '' ELSE '1.3' END,
    method = 'eap-tls' AND n %% 10 > 0,
    {request},
    40 + n %% 200, CASE WHEN permitted THEN 'permit' ELSE 'deny' END,
    CASE WHEN permitted AND method = 'mab' THEN '' ELSE name END,
    CASE method WHEN 'eap-tls' THEN 'device-' || device ELSE '' END
FROM (
    SELECT n, t, device, '02' || lpad(to_hex(t), 4, '0') || lpad(to_hex(device), 6, '0') AS mac,
        (ARRAY['mab','mab','mab','mab','mab','mab','mab','eap-tls','eap-tls','peap'])[1 + device %% 10] AS method,
        n %% 33 > 0 AS permitted, %(tenants)s::uuid[] AS tenants, %(sites)s::uuid[] AS sites, %(nases)s::uuid[] AS nases
    FROM (
        SELECT n, t, ((random() ^ 2) * (%(devices)s::int[])[t])::int AS device
        FROM (
            SELECT n, 1 + width_bucket(random(), %(shares)s::float[]) AS t FROM generate_series(1, %(rows)s) n OFFSET 0
        ) a OFFSET 0
    ) b
) c, LATERAL (SELECT CASE method WHEN 'mab' THEN mac ELSE 'user-' || device || '@example.com' END AS name) d
"""
# Columns that no index and no condition uses. These columns are two thirds of a row's size.
_REPLY = """
CASE WHEN permitted THEN format(
    '[["Tunnel-Type:1", ":=", "VLAN"], ["Tunnel-Medium-Type:1", ":=", "IEEE-802"], '
    '["Tunnel-Private-Group-Id:1", ":=", "%%s"]]', 100 + device %% 20) ELSE '[]' END::json
"""
_REQUEST = """
format(
    '{{"radius.User-Name": ["%%s"], "radius.NAS-Identifier": ["switch-%%s"], "radius.NAS-Port-Id": ["Gi1/0/%%s"], '
    '"radius.NAS-Port-Type": ["Ethernet"], "radius.Service-Type": ["Call-Check"], '
    '"radius.Calling-Station-Id": ["%%s"], "radius.Called-Station-Id": ["00-10-A4-23-19-C0"], "mac": ["%%s"], '
    '"method": ["%%s"], "site.name": ["Site %%s"], "endpoint.known": [true], "endpoint.group": ["group-%%s"]%%s}}',
    name, 20 - device %% 20, device %% 48, mac, mac, method, device %% 4, device %% 25,
    CASE method WHEN 'eap-tls' THEN format(', "certificate.common_name": ["device-%%s"]', device) ELSE '' END
)::json
"""
_SAME_ROWS = """
INSERT INTO {partition} (at, {columns})
SELECT at + (%(day)s::date - %(like)s::date) * interval '1 day', {columns} FROM {like}
"""
_LOST = """
INSERT INTO auth_log (at, tenant_id, cell_id, mac, identity, method, permitted, reason, verdict)
SELECT %(day)s::timestamptz + interval '1 hour', t, 1,
    ('02' || lpad(to_hex(n), 4, '0') || 'ffffff')::macaddr, 'lost', 'mab', true, 'rule-permitted', 'permit'
FROM unnest(%(tenants)s::uuid[]) WITH ORDINALITY AS tenants (t, n)
"""
_SESSIONS = """
INSERT INTO sessions (
    tenant_id, nas_key, session_id, mac_key, started_at, site_id, nas_id, nas_address, mac, identity, framed_ip,
    updated_at, session_seconds, input_octets, output_octets, nas_port
)
SELECT tenants[t], format('switch-%%s|192.0.2.7', 20 - n %% 20), to_hex(n), mac, now() - n * interval '86 milliseconds',
    sites[t * 4 - n %% 4], nases[t * 20 - n %% 20], '192.0.2.7', mac::macaddr, 'user-' || n || '@example.com',
    '10.0.0.0'::inet + n, now(), n %% 86400, n * 1000::bigint, n * 5000::bigint, 'Gi1/0/' || n %% 48
FROM (
    SELECT n, 1 + width_bucket(n::float / (%(rows)s + 1), %(shares)s::float[]) AS t, lpad(to_hex(n), 12, '0') AS mac,
        %(tenants)s::uuid[] AS tenants, %(sites)s::uuid[] AS sites, %(nases)s::uuid[] AS nases
    FROM generate_series(%(first)s::int, %(last)s::int) n
) a
"""
_SLICE = 100_000
# Number of days that the benchmark fills at the same time, on two cores.
_CONCURRENT_DAYS = 2
# Number of days with generated rows. The rows of all other days are copies, because copying is much faster.
_DIFFERENT_DAYS = 12


@dataclass(frozen=True)
class TenantRows:
    """Tenants, largest first. Each row of `sites` has 4 sites of a tenant, and each row of `nases` has 20 NASes."""

    ids: list[UUID]
    slugs: list[str]
    sites: list[UUID]
    nases: list[UUID]

    @property
    def shares(self) -> list[float]:
        """Return the share of rows (0 to 1) that the n largest tenants have together, for each n except the last."""
        weights = [1 / number**_STEEPNESS for number in range(1, len(self.ids) + 1)]
        return [share / sum(weights) for share in accumulate(weights)][:-1]

    def devices(self, rows: int) -> list[int]:
        ends = [0.0, *self.shares, 1.0]
        return [max(20, int((ends[n + 1] - ends[n]) * rows / _ROWS_OF_A_DEVICE)) for n in range(len(self.ids))]

    @property
    def parameters(self) -> dict[str, object]:
        return {"tenants": self.ids, "sites": self.sites, "nases": self.nases, "shares": self.shares}


def make_tenants(url: str, count: int) -> TenantRows:
    """Create the tenants as a superuser, without a cell."""
    with psycopg.connect(url) as connection:
        rows = connection.execute(_TENANTS, {"count": count, "sites": _SITES, "nases": _NASES}).fetchall()
        connection.execute(
            "UPDATE tenants t SET default_site_id = s.id FROM sites s WHERE s.tenant_id = t.id AND s.slug = 'main'"
        )
    return TenantRows(
        [row[0] for row in rows],
        [row[1] for row in rows],
        [site for row in rows for site in row[2]],
        [nas for row in rows for nas in row[3]],
    )


def make_platform_token(engine: Engine) -> str:
    held = permissions_at(PermissionLevel.PLATFORM)
    with session_scope(PlatformScope(), engine=engine) as session:
        return api_tokens.create_token(
            session,
            actor="bench",
            held=held,
            owner=Owner(),
            name="bench",
            permissions=held,
            expires_at=utc_now() + timedelta(days=1),
        ).text


def fill_auth_log(
    url: str,
    tenants: TenantRows,
    *,
    rows: int,
    days: int,
    log_line: Callable[[str], None],
    different: int = _DIFFERENT_DAYS,
    has_requests: bool = True,
) -> None:
    """Write rows of the last `days` days in order of time, with one partition for each day.

    If `has_requests` is false, the columns `request` and `reply` are empty.
    """
    given = tenants.parameters | {"devices": tenants.devices(rows), "rows": rows // days}
    told = (_REPLY, _REQUEST) if has_requests else ("'[]'::json", "'{{}}'::json")
    made = _AUTH_ROWS.replace("{reply}", told[0]).replace("{request}", told[1])
    wanted = list(_days(utc_now().date(), days))
    made_up, others = wanted[-different:], wanted[:-different]
    with ThreadPoolExecutor(_CONCURRENT_DAYS) as threads:
        deque(threads.map(lambda day: _fill_day(url, day, made, given), made_up), maxlen=0)
        log_line(f"{len(made_up)} of {days} days")
        filled = threads.map(lambda day, like: _fill_day(url, day, _SAME_ROWS, {}, like=like), others, cycle(made_up))
        for number, _ in enumerate(filled, start=len(made_up) + 1):
            if number % 30 == 0:
                log_line(f"{number} of {days} days")
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("SET TIME ZONE 'UTC'")
        connection.execute(_LOST, {"day": wanted[0], "tenants": tenants.ids})


def _fill_day(url: str, day: date, rows: str, given: dict[str, object], *, like: date | None = None) -> None:
    partition = _partition(day)
    fill = sql.SQL(rows).format(partition=partition, columns=sql.SQL(_COLUMNS), like=_partition(like or day))
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("SET synchronous_commit = off")
        connection.execute("SET TIME ZONE 'UTC'")
        # The other core fills another day.
        connection.execute("SET max_parallel_maintenance_workers = 0")
        # PostgreSQL writes no WAL for a table that is created in the same transaction, if wal_level is minimal.
        with connection.transaction():
            new = _is_missing_or_empty(connection, partition)
            if new:
                # An existing partition has indexes. Filling it row by row would take three times as long.
                connection.execute(sql.SQL("DROP TABLE IF EXISTS {}").format(partition))
                table = "CREATE TABLE {} (LIKE auth_log INCLUDING DEFAULTS INCLUDING CONSTRAINTS)"
                connection.execute(sql.SQL(table).format(partition))
                connection.execute(sql.SQL("ALTER TABLE {} OWNER TO admit_owner").format(partition))
            connection.execute(fill, given | {"day": day, "like": like})
            if new:
                _attach(connection, partition, day)
        connection.execute(sql.SQL("VACUUM (ANALYZE) {}").format(partition))


def _is_missing_or_empty(connection: psycopg.Connection, partition: sql.Identifier) -> bool:
    row = connection.execute("SELECT to_regclass(%s) IS NULL", (partition.as_string(),)).fetchone()
    if row is not None and row[0]:
        return True
    return connection.execute(sql.SQL("SELECT FROM {} LIMIT 1").format(partition)).fetchone() is None


def _partition(day: date) -> sql.Identifier:
    return sql.Identifier(f"auth_log_{day:%Y%m%d}")


def _days(today: date, days: int) -> Iterator[date]:
    return (today - timedelta(days=days - 1 - number) for number in range(days))


def _attach(connection: psycopg.Connection, partition: sql.Identifier, day: date) -> None:
    connection.execute(sql.SQL("ALTER TABLE {} ENABLE ROW LEVEL SECURITY").format(partition))
    bounds = {"first": sql.Literal(f"{day}"), "next": sql.Literal(f"{day + timedelta(days=1)}")}
    attach = "ALTER TABLE auth_log ATTACH PARTITION {partition} FOR VALUES FROM ({first}) TO ({next})"
    connection.execute(sql.SQL(attach).format(partition=partition, **bounds))


def fill_sessions(url: str, tenants: TenantRows, *, rows: int) -> None:
    """Write live sessions with distinct devices, users and addresses. The MAC and IP addresses are computed from the
    row number.
    """
    with psycopg.connect(url, autocommit=True) as connection:
        for first in range(1, rows + 1, _SLICE):
            last = min(first + _SLICE - 1, rows)
            connection.execute(_SESSIONS, tenants.parameters | {"rows": rows, "first": first, "last": last})
        connection.execute("VACUUM (ANALYZE) sessions")


def fill_lists(
    url: str, tenants: TenantRows, *, share: float, log_line: Callable[[str], None], has_days: bool = True
) -> None:
    """Write rows for every list. `share` scales the numbers of rows in lists.sql, such as 300,000 endpoints.

    A log has one partition for each day, unless the log has few rows.
    """
    script = files("loadtest.api").joinpath("lists.sql").read_text(encoding="utf-8")
    with psycopg.connect(url, autocommit=True) as connection:
        given = {"share": str(share), "shares": "{" + ",".join(map(str, tenants.shares)) + "}"}
        for name, value in given.items():
            connection.execute("SELECT set_config('bench.' || %s, %s, false)", (name, value))
        connection.execute("SET session_replication_role = replica")
        if has_days:
            connection.execute("SELECT ensure_log_partitions(current_date - 6, 8)")
        connection.execute("SET TIME ZONE 'UTC'")
        connection.execute("CREATE TEMP TABLE bench_tenants (t int PRIMARY KEY, id uuid, sites uuid[], nases uuid[])")
        with connection.cursor().copy("COPY bench_tenants FROM STDIN") as copy:
            for n, tenant in enumerate(tenants.ids):
                own = tenants.sites[n * _SITES : (n + 1) * _SITES], tenants.nases[n * _NASES : (n + 1) * _NASES]
                copy.write_row((n + 1, tenant, *own))
        for statement in script.split(";\n"):
            connection.execute(statement)
            log_line(" ".join(statement.split()[:3]))
        connection.execute("VACUUM (ANALYZE)")


def auth_log_sizes(url: str) -> dict[str, int]:
    """Return two sizes in bytes: of the rows and of the indexes of the auth log."""
    query = """
        SELECT sum(pg_table_size(inhrelid))::bigint, sum(pg_indexes_size(inhrelid))::bigint
        FROM pg_inherits WHERE inhparent = 'auth_log'::regclass
    """
    with psycopg.connect(url) as connection:
        row = connection.execute(query).fetchone()
    assert row is not None
    return {"rows": row[0], "indexes": row[1]}
