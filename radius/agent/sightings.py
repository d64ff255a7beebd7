"""Sightings of MAC addresses: when and where, whether admitted, and reported evidence. Endpoints are made from them.

Written once a minute for each address (accounting: half an hour), or when the verdict or evidence changes. So frequent
devices cost only a dictionary lookup.
"""

import time
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

import psycopg

from nac.cellformat.journal.records import AccountingRecord, AuthRecord
from nac.cellformat.packet_values import Pairs, get_values
from nac.inventory.endpoints.enrichment_queue import MAX_WAITING
from nac.inventory.profiling.evidence import Evidence, filter_evidence_pairs, read_evidence
from nac.kit.mac import called_station_ssid
from radius.agent.accounting_parser import ParsedAccounting
from radius.agent.copy_format import copy_line

QUIET_MICROSECONDS = 60_000_000
# Frequent Interim-Updates add nothing: sessions show who is present.
ACCOUNTING_QUIET_MICROSECONDS = 1_800_000_000
# Maximum; the least recently seen are dropped, which costs one more update each.
MAX_REMEMBERED = 100_000

# Counting a tenant's list to see whether it is full takes 70 ms if it is.
CHECK_INTERVAL_SECONDS = 10.0
_FULL_QUEUES = """
SELECT t FROM unnest(%(tenants)s::text[]) t
WHERE EXISTS (SELECT FROM endpoint_work w WHERE w.tenant_id = t::uuid OFFSET %(most)s - 1)
"""

SightingKey = tuple[str, str]


@dataclass(slots=True)
class Sighting:
    """Data of a batch about one address; the latest value wins."""

    tenant_id: str
    mac: str
    at: int
    site_id: str
    nas_id: str
    nas_port: str
    ssid: str
    # "" and None if only accounting reports it.
    method: str = ""
    identity: str = ""
    permitted: bool | None = None
    # Hash of the evidence, to detect repetition; 0 for none.
    told: int = 0
    evidence: dict[tuple[str, str], Evidence] = field(default_factory=dict)


class _StoredSighting(NamedTuple):
    at: int
    permitted: bool | None
    told: int


class FullWorkQueues:
    """Tenants with so much waiting work that nothing new is stored until the worker has caught up."""

    def __init__(self) -> None:
        self._looked: dict[str, float] = {}
        self._full: set[str] = set()

    def among(self, cursor: psycopg.Cursor, tenants: Iterable[str]) -> frozenset[str]:
        now = time.monotonic()
        due = [tenant for tenant in tenants if now - self._looked.get(tenant, float("-inf")) >= CHECK_INTERVAL_SECONDS]
        if due:
            found = cursor.execute(_FULL_QUEUES, {"tenants": due, "most": MAX_WAITING}).fetchall()
            self._looked.update(dict.fromkeys(due, now))
            self._full.difference_update(due)
            self._full.update(tenant for (tenant,) in found)
        return frozenset(self._full.intersection(tenants))


class RecentSightings:
    """Recent writes for each MAC address; only `remember` changes them, after the commit."""

    def __init__(self, quiet_microseconds: int) -> None:
        self._quiet = quiet_microseconds
        self._written: OrderedDict[SightingKey, _StoredSighting] = OrderedDict()
        self.full_queues = FullWorkQueues()

    def batch(self) -> "SightingBatch":
        return SightingBatch(self)

    def is_due(self, key: SightingKey, at: int, permitted: bool | None, told: int) -> bool:
        written = self._written.get(key)
        if written is None or written.permitted != permitted or at - written.at >= self._quiet:
            return True
        return told not in (0, written.told)

    def told(self, key: SightingKey) -> int:
        written = self._written.get(key)
        return written.told if written else 0

    def remember(self, batch: "SightingBatch") -> None:
        for key, seen in batch.seen.items():
            # Evidence that was not stored counts as new next time.
            told = 0 if seen.tenant_id in batch.full else seen.told or self.told(key)
            self._written[key] = _StoredSighting(seen.at, seen.permitted, told)
            self._written.move_to_end(key)
        while len(self._written) > MAX_REMEMBERED:
            self._written.popitem(last=False)


class SightingBatch:
    def __init__(self, known: RecentSightings) -> None:
        self._known = known
        self.seen: dict[SightingKey, Sighting] = {}
        # From FullLists, set before writing.
        self.full: frozenset[str] = frozenset()

    def find_full_queues(self, cursor: psycopg.Cursor) -> None:
        self.full = self._known.full_queues.among(cursor, {tenant for tenant, _ in self.seen})

    def add_authentication(self, record: AuthRecord) -> None:
        if not record.mac:
            return
        said = filter_evidence_pairs(record.pairs)
        told = hash(said) if said else 0
        if not self._known.is_due((record.tenant_id, record.mac), record.at, record.permitted, told):
            return
        seen = self._seen(record.tenant_id, record.mac, record.at, record, record.nas_port, record.pairs, said, told)
        seen.method, seen.identity, seen.permitted = record.method, record.identity, record.permitted

    def add_accounting(self, record: AccountingRecord, usage: ParsedAccounting) -> None:
        if not usage.mac:
            return
        said = filter_evidence_pairs(record.attributes)
        told = hash(said) if said else 0
        if not self._known.is_due((usage.tenant_id, usage.mac), usage.event_at, None, told):
            return
        values = dict(record.attributes)
        port = values.get("NAS-Port-Id") or values.get("NAS-Port", "")
        self._seen(usage.tenant_id, usage.mac, usage.event_at, record, port, record.attributes, said, told)

    def _seen(
        self,
        tenant_id: str,
        mac: str,
        at: int,
        record: AuthRecord | AccountingRecord,
        nas_port: str,
        pairs: Pairs,
        said: Pairs,
        told: int,
    ) -> Sighting:
        called = get_values(pairs, "Called-Station-Id")
        ssid = called_station_ssid(called[0]) if called else ""
        seen = Sighting(tenant_id, mac, at, record.site_id, record.nas_id, nas_port, ssid, told=told)
        before = self.seen.get((tenant_id, mac))
        if before is not None:
            seen.evidence = before.evidence
            seen.told = told or before.told
        for each in read_evidence(said) if said else ():
            seen.evidence[each.source, each.key] = each
        self.seen[tenant_id, mac] = seen
        return seen

    # Ordered by key: both streams write these rows and must not deadlock.

    def sighting_lines(self) -> Iterable[str]:
        return [_sighting_line(self.seen[key]) for key in sorted(self.seen)]

    def evidence_lines(self) -> Iterable[str]:
        return [
            copy_line(seen.tenant_id, seen.mac, str(seen.at), *seen.evidence[kind])
            for key in sorted(self.seen)
            if (seen := self.seen[key]).evidence
            for kind in sorted(seen.evidence)
        ]


SIGHTINGS_TABLE = """
CREATE TEMPORARY TABLE shipped_sightings (
    tenant_id uuid, mac macaddr, at bigint, site_id uuid, nas_id uuid, nas_port text, ssid text, method text,
    identity text, permitted boolean
) ON COMMIT DELETE ROWS
"""
SIGHTINGS_COPY = "COPY shipped_sightings FROM STDIN (NULL '')"
# Addresses never seen before become work for the worker.
SIGHTINGS_MERGE = """
WITH merged AS (
    INSERT INTO endpoint_sightings AS known (
        tenant_id, mac, first_seen_at, last_seen_at, site_id, nas_id, nas_port, ssid, method, identity, permitted
    )
    SELECT tenant_id, mac, to_timestamp(at::float8 / 1e6), to_timestamp(at::float8 / 1e6), site_id, nas_id,
        coalesce(nas_port, ''), coalesce(ssid, ''), coalesce(method, ''), coalesce(identity, ''), permitted
    FROM shipped_sightings s
    WHERE tenant_id <> ALL (%(full)s::uuid[])
        -- OFFSET 0: looked up one by one, and no table of all that were ever seen is made.
        OR EXISTS (SELECT FROM endpoint_sightings k WHERE k.tenant_id = s.tenant_id AND k.mac = s.mac OFFSET 0)
    ON CONFLICT (tenant_id, mac) DO UPDATE SET
        last_seen_at = excluded.last_seen_at, site_id = excluded.site_id, nas_id = excluded.nas_id,
        nas_port = excluded.nas_port, times = known.times + 1,
        ssid = CASE excluded.ssid WHEN '' THEN known.ssid ELSE excluded.ssid END,
        method = CASE excluded.method WHEN '' THEN known.method ELSE excluded.method END,
        identity = CASE excluded.method WHEN '' THEN known.identity ELSE excluded.identity END,
        permitted = coalesce(excluded.permitted, known.permitted)
    WHERE known.last_seen_at <= excluded.last_seen_at
    RETURNING tenant_id, mac, times
)
INSERT INTO endpoint_work (tenant_id, mac) SELECT tenant_id, mac FROM merged WHERE times = 1
"""

EVIDENCE_TABLE = """
CREATE TEMPORARY TABLE shipped_evidence (
    tenant_id uuid, mac macaddr, at bigint, source text, key text, value text
) ON COMMIT DELETE ROWS
"""
EVIDENCE_COPY = "COPY shipped_evidence FROM STDIN (NULL '')"
EVIDENCE_MERGE = """
WITH merged AS (
    INSERT INTO endpoint_evidence AS known (tenant_id, mac, source, key, value, at)
    SELECT tenant_id, mac, source, key, value, to_timestamp(at::float8 / 1e6) FROM shipped_evidence
    WHERE tenant_id <> ALL (%(full)s::uuid[])
    ON CONFLICT (tenant_id, mac, source, key) DO UPDATE SET value = excluded.value, at = excluded.at
    WHERE known.value <> excluded.value AND known.at <= excluded.at
    RETURNING tenant_id, mac
)
INSERT INTO endpoint_work (tenant_id, mac) SELECT DISTINCT tenant_id, mac FROM merged
"""


def _sighting_line(seen: Sighting) -> str:
    return copy_line(
        seen.tenant_id,
        seen.mac,
        str(seen.at),
        seen.site_id,
        seen.nas_id,
        seen.nas_port,
        seen.ssid,
        seen.method,
        seen.identity,
        "" if seen.permitted is None else "t" if seen.permitted else "f",
    )
