"""Writes millions of live sessions to a database in seconds, with realistic tenants, NASes and users.

The values of session `n` of a tenant are computed from `n`. Queries and accounting reports can thus compute the same
values.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from uuid import UUID

import psycopg
from psycopg import sql

from nac.cellformat.journal.records import AccountingRecord
from nac.kit.clock import epoch_seconds

SESSIONS_PER_NAS = 200
NASES_PER_SITE = 20
# The oldest session began a working day ago. Each session has sent a report in the last ten minutes.
MAX_AGE_SECONDS = 28_800
INTERIM_SECONDS = 600
NAS_ADDRESS = "192.0.2.1"

_SITES = """
INSERT INTO sites (tenant_id, slug, name)
SELECT %(tenant)s, 'site-' || i, 'Site ' || i FROM generate_series(0, %(sites)s - 1) i
"""
_NASES = """
INSERT INTO nases (tenant_id, site_id, name, identifier)
SELECT %(tenant)s, s.id, 'Switch ' || i, 'sw-' || i
FROM generate_series(0, %(nases)s - 1) i
JOIN sites s ON s.tenant_id = %(tenant)s AND s.slug = 'site-' || (i / %(per_site)s)
"""
# One session in five also has an IPv6 address.
_SESSIONS = """
INSERT INTO sessions (
    tenant_id, nas_key, session_id, mac_key, started_at, site_id, nas_id, nas_address, nas_port, mac, identity,
    framed_ip, framed_ipv6, updated_at, session_seconds, input_octets, output_octets, interim_seconds, usage_hour
)
SELECT %(tenant)s, identifier || '|' || %(nas_address)s, upper(lpad(to_hex(n), 8, '0')), mac,
    to_timestamp(%(base)s - age), site_id, nas_id, %(nas_address)s::inet, 'Gi1/0/' || n %% 48, mac::macaddr,
    'user' || n %% %(users)s, '10.0.0.0'::inet + n, CASE WHEN n %% 5 = 0 THEN '2001:db8::'::inet + n END,
    to_timestamp(%(base)s - n %% least(age + 1, %(interim)s)), age - n %% least(age + 1, %(interim)s), age * 1000,
    age * 9000, %(interim)s, date_trunc('hour', to_timestamp(%(base)s), 'UTC')
FROM (
    SELECT n, n * 37 %% %(longest)s AS age, lpad(to_hex(%(prefix)s::bigint << 24 | n), 12, '0') AS mac,
        n.site_id, n.id AS nas_id, n.identifier
    FROM (
        SELECT g.n, nas.* FROM generate_series(0::bigint, %(sessions)s - 1) g (n)
        JOIN nases nas ON nas.tenant_id = %(tenant)s
            AND nas.identifier = 'sw-' || (g.n * g.n / %(sessions)s * %(nases)s / %(sessions)s)
    ) n
) one
"""
_INDEXES = """
SELECT indexrelid::regclass::text, pg_get_indexdef(indexrelid) FROM pg_index
WHERE indrelid = 'sessions'::regclass AND NOT indisunique
"""


@dataclass(frozen=True, slots=True)
class TenantSessions:
    """The live sessions of one tenant, with methods that compute the values of a session."""

    tenant_id: UUID
    # Number of the tenant, from 0.
    number: int
    sessions: int
    # Time of the preload in epoch seconds.
    base: int

    @property
    def nases(self) -> int:
        return -(-self.sessions // SESSIONS_PER_NAS)

    @property
    def users(self) -> int:
        """Return the number of users. Some users have two devices."""
        return max(1, self.sessions * 4 // 5)

    def mac(self, n: int) -> str:
        return f"{_mac_prefix(self.number) << 24 | n:012x}"

    def user(self, n: int) -> str:
        return f"user{n % self.users}"

    def address(self, n: int) -> str:
        return f"10.{n >> 16 & 255}.{n >> 8 & 255}.{n & 255}"

    def nas(self, n: int) -> str:
        """Return the NAS of session `n`.

        Some NASes have far more sessions than others, as a controller has more sessions than an access switch.
        """
        return f"sw-{n * n // self.sessions * self.nases // self.sessions}"

    def report(self, n: int, *, at: int) -> AccountingRecord:
        """An Interim-Update of session `n` at the time `at` (epoch microseconds)."""
        seconds = at // 1_000_000 - self.base + n * 37 % MAX_AGE_SECONDS
        said = {
            "User-Name": self.user(n),
            "NAS-IP-Address": NAS_ADDRESS,
            "NAS-Identifier": self.nas(n),
            "NAS-Port-Id": f"Gi1/0/{n % 48}",
            "NAS-Port-Type": "Ethernet",
            "Calling-Station-Id": self.mac(n),
            "Called-Station-Id": "00-11-22-33-44-55",
            "Framed-IP-Address": self.address(n),
            "Acct-Status-Type": "Interim-Update",
            "Acct-Session-Id": f"{n:08X}",
            "Acct-Delay-Time": "0",
            "Acct-Session-Time": str(seconds),
            "Acct-Input-Octets": str(seconds * 1_000),
            "Acct-Output-Octets": str(seconds * 9_000),
        }
        return AccountingRecord(at, 1, str(self.tenant_id), "", "", NAS_ADDRESS, tuple(said.items()))


def _mac_prefix(number: int) -> int:
    """Return the first three octets of the tenant's MAC addresses, which are locally administered."""
    return 0x020000 + number


def split_sessions(tenants: int, sessions: int) -> list[int]:
    """Split sessions among tenants. The k-th tenant has 1/k of the sessions of the first tenant."""
    weights = [1 / (k + 1) for k in range(tenants)]
    whole = sum(weights)
    made = [int(sessions * weight / whole) for weight in weights]
    made[0] += sessions - sum(made)
    return made


def preload(connection: psycopg.Connection, tenants: Sequence[UUID], sessions: int) -> list[TenantSessions]:
    """Write the sessions.

    `connection` is a connection of a superuser in autocommit mode. Returns the tenants that have sessions.
    """
    base = epoch_seconds()
    crowds = [
        TenantSessions(tenant, number, share, base)
        for number, (tenant, share) in enumerate(zip(tenants, split_sessions(len(tenants), sessions), strict=True))
        if share
    ]
    with _without_indexes(connection):
        for crowd in crowds:
            given = {
                "tenant": crowd.tenant_id,
                "sessions": crowd.sessions,
                "nases": crowd.nases,
                "users": crowd.users,
                "sites": -(-crowd.nases // NASES_PER_SITE),
                "per_site": NASES_PER_SITE,
                "prefix": _mac_prefix(crowd.number),
                "base": base,
                "longest": MAX_AGE_SECONDS,
                "interim": INTERIM_SECONDS,
                "nas_address": NAS_ADDRESS,
            }
            for statement in (_SITES, _NASES, _SESSIONS):
                connection.execute(statement, given)
    for table in ("sessions", "nases", "sites"):
        connection.execute(sql.SQL("VACUUM (FREEZE, ANALYZE) {}").format(sql.Identifier(table)))
    return crowds


@contextmanager
def _without_indexes(connection: psycopg.Connection) -> Iterator[None]:
    """Drop the indexes, and create them again after the block. Writing then takes a third of the time."""
    indexes = connection.execute(_INDEXES).fetchall()
    for name, _ in indexes:
        connection.execute(sql.SQL("DROP INDEX {}").format(sql.Identifier(name)))
    try:
        yield
    finally:
        connection.execute("SET maintenance_work_mem = '512MB'")
        for _, definition in indexes:
            connection.execute(definition)
