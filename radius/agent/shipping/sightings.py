"""Sightings of MAC addresses: when and where a device was seen, whether it was admitted, and its evidence.

The worker creates endpoints from the sightings. The agent writes a sighting of an address at most once a minute (from
accounting, once in half an hour). If the verdict or the evidence changes, the agent writes the sighting immediately. So
frequent devices cost only a dictionary lookup.
"""

import time
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

import psycopg

from nac.cellformat.journal.records import AccountingRecord, AuthRecord
from nac.cellformat.packet_values import Pairs, get_values
from nac.inventory.endpoints.enrichment import MAX_WAITING
from nac.inventory.profiling.evidence import Evidence, filter_evidence_pairs, read_evidence
from nac.kit.mac import called_station_ssid
from radius.agent.accounting_parser import ParsedAccounting, shorten_key
from radius.agent.copy_format import copy_line, copy_rows, host_address

QUIET_MICROSECONDS = 60_000_000
# Longer than for logins, because the sessions already show which devices are present.
ACCOUNTING_QUIET_MICROSECONDS = 1_800_000_000
# Limit of addresses in memory. The least recently seen addresses are dropped. A dropped address costs one more write.
MAX_REMEMBERED = 100_000

# Seconds between two checks whether a tenant's queue is full. A check of a full queue takes 70 ms.
CHECK_INTERVAL_SECONDS = 10.0
_FULL_QUEUES = """
SELECT t FROM unnest(%(tenants)s::text[]) t
WHERE EXISTS (SELECT FROM endpoint_work w WHERE w.tenant_id = t::uuid OFFSET %(most)s - 1)
"""

SightingKey = tuple[str, str]


@dataclass(slots=True)
class Sighting:
    """Sighting of one address in a batch. The latest value of each field is used."""

    tenant_id: str
    mac: str
    at: int
    site_id: str
    nas_id: str
    nas_port: str
    ssid: str
    # Empty if only accounting reports the device.
    method: str = ""
    identity: str = ""
    permitted: bool | None = None
    # Hash of the evidence, to detect repetition; 0 without evidence.
    evidence_hash: int = 0
    evidence: dict[tuple[str, str], Evidence] = field(default_factory=dict)


class _StoredSighting(NamedTuple):
    at: int
    permitted: bool | None
    evidence_hash: int


class FullWorkQueues:
    """Tenants with so much queued work that the agent stores no new work until the worker has caught up."""

    def __init__(self) -> None:
        self._looked: dict[str, float] = {}
        self._full: set[str] = set()

    def among(self, cursor: psycopg.Cursor, tenants: Iterable[str]) -> frozenset[str]:
        now = time.monotonic()
        due = [tenant for tenant in tenants if now - self._looked.get(tenant, float("-inf")) >= CHECK_INTERVAL_SECONDS]
        if due:
            rows = cursor.execute(_FULL_QUEUES, {"tenants": due, "most": MAX_WAITING}).fetchall()
            self._looked.update(dict.fromkeys(due, now))
            self._full.difference_update(due)
            self._full.update(tenant for (tenant,) in rows)
        return frozenset(self._full.intersection(tenants))


class RecentSightings:
    """Last write for each MAC address. Only `remember` changes the times of the last writes, after the commit."""

    def __init__(self, quiet_microseconds: int) -> None:
        self._quiet = quiet_microseconds
        self._written: OrderedDict[SightingKey, _StoredSighting] = OrderedDict()
        self.full_queues = FullWorkQueues()

    def batch(self) -> "SightingBatch":
        return SightingBatch(self)

    def is_due(self, key: SightingKey, at: int, permitted: bool | None, evidence_hash: int) -> bool:
        written = self._written.get(key)
        if written is None or written.permitted != permitted or at - written.at >= self._quiet:
            return True
        return evidence_hash not in (0, written.evidence_hash)

    def evidence_hash(self, key: SightingKey) -> int:
        written = self._written.get(key)
        return written.evidence_hash if written else 0

    def remember(self, batch: "SightingBatch") -> None:
        for key, seen in batch.seen.items():
            # Evidence that was not stored counts as new at the next sighting.
            evidence_hash = 0 if seen.tenant_id in batch.full else seen.evidence_hash or self.evidence_hash(key)
            self._written[key] = _StoredSighting(seen.at, seen.permitted, evidence_hash)
            self._written.move_to_end(key)
        while len(self._written) > MAX_REMEMBERED:
            self._written.popitem(last=False)


class SightingBatch:
    def __init__(self, known: RecentSightings) -> None:
        self._known = known
        self.seen: dict[SightingKey, Sighting] = {}
        # Tenants whose work queue is full; `find_full_queues` sets them before the batch is written.
        self.full: frozenset[str] = frozenset()

    def find_full_queues(self, cursor: psycopg.Cursor) -> None:
        self.full = self._known.full_queues.among(cursor, {tenant for tenant, _ in self.seen})

    def add_authentication(self, record: AuthRecord) -> None:
        if not record.mac:
            return
        evidence = filter_evidence_pairs(record.pairs)
        evidence_hash = hash(evidence) if evidence else 0
        if not self._known.is_due((record.tenant_id, record.mac), record.at, record.permitted, evidence_hash):
            return
        seen = self._seen(
            record.tenant_id, record.mac, record.at, record, record.nas_port, record.pairs, evidence, evidence_hash
        )
        seen.method, seen.identity, seen.permitted = record.method, record.identity, record.permitted

    def add_accounting(self, record: AccountingRecord, usage: ParsedAccounting) -> None:
        if not usage.mac:
            return
        evidence = filter_evidence_pairs(record.attributes)
        evidence_hash = hash(evidence) if evidence else 0
        if not self._known.is_due((usage.tenant_id, usage.mac), usage.event_at, None, evidence_hash):
            return
        values = dict(record.attributes)
        port = values.get("NAS-Port-Id") or values.get("NAS-Port", "")
        self._seen(usage.tenant_id, usage.mac, usage.event_at, record, port, record.attributes, evidence, evidence_hash)

    def _seen(
        self,
        tenant_id: str,
        mac: str,
        at: int,
        record: AuthRecord | AccountingRecord,
        nas_port: str,
        pairs: Pairs,
        evidence: Pairs,
        evidence_hash: int,
    ) -> Sighting:
        called = get_values(pairs, "Called-Station-Id")
        ssid = called_station_ssid(called[0]) if called else ""
        seen = Sighting(tenant_id, mac, at, record.site_id, record.nas_id, nas_port, ssid, evidence_hash=evidence_hash)
        before = self.seen.get((tenant_id, mac))
        if before is not None:
            seen.evidence = before.evidence
            seen.evidence_hash = evidence_hash or before.evidence_hash
        for each in read_evidence(evidence) if evidence else ():
            seen.evidence[each.source, each.key] = each
        self.seen[tenant_id, mac] = seen
        return seen

    # Both methods order by key: both streams write these rows and must not deadlock.

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
# Addresses that were never seen before are queued for the worker.
SIGHTINGS_MERGE = """
WITH merged AS (
    INSERT INTO endpoint_sightings AS known (
        tenant_id, mac, first_seen_at, last_seen_at, site_id, nas_id, nas_port, ssid, method, identity, permitted
    )
    SELECT tenant_id, mac, to_timestamp(at::float8 / 1e6), to_timestamp(at::float8 / 1e6), site_id, nas_id,
        coalesce(nas_port, ''), coalesce(ssid, ''), coalesce(method, ''), coalesce(identity, ''), permitted
    FROM shipped_sightings s
    WHERE tenant_id <> ALL (%(full)s::uuid[])
        -- OFFSET 0: looks up each row by index, and does not read all stored sightings.
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


class SignatureSightings:
    """Sightings of Message-Authenticator in requests of exempt NASes.

    The agent writes one row for each NAS, once a minute.
    """

    def __init__(self) -> None:
        # Times in epoch microseconds, by tenant and source address: the last unsigned request, the first signed request
        # after that, and the last signed request. 0 if there was none.
        self._seen: dict[tuple[str, str], tuple[int, int, int]] = {}

    def add(self, record: AuthRecord) -> None:
        if not record.signature:
            return
        which, source = record.signature
        key = record.tenant_id, source
        unsigned, since, signed = self._seen.get(key, (0, 0, 0))
        if which == "unsigned":
            unsigned = max(unsigned, record.at)
        else:
            signed = max(signed, record.at)
            since = min(since or record.at, record.at)
        self._seen[key] = unsigned, since if since > unsigned else 0, signed

    def write(self, cursor: psycopg.Cursor) -> None:
        lines = (
            copy_line(tenant, host_address(source), *(str(at) if at else "" for at in times))
            for (tenant, source), times in self._seen.items()
        )
        if copy_rows(cursor, _COPY_SIGNATURES, lines):
            cursor.execute(_MERGE_SIGNATURES)


SIGNATURES_TABLE = """
CREATE TEMPORARY TABLE shipped_signatures (
    tenant_id uuid, source inet, unsigned_at bigint, signs_since bigint, signed_at bigint
) ON COMMIT DELETE ROWS
"""
_COPY_SIGNATURES = "COPY shipped_signatures FROM STDIN (NULL '')"
# Written once a minute and at each change. A late batch (radius/agent/replay.py) may make `signs_since` later than the
# real time, but never earlier.
_MERGE_SIGNATURES = """
INSERT INTO nas_signatures AS known (nas_id, tenant_id, last_unsigned_at, signs_since, last_signed_at)
SELECT n.id, n.tenant_id, to_timestamp(s.unsigned_at / 1e6), to_timestamp(s.signs_since / 1e6),
    to_timestamp(s.signed_at / 1e6)
FROM shipped_signatures s JOIN nases n ON n.tenant_id = s.tenant_id AND n.address = s.source
WHERE NOT n.require_message_authenticator
ORDER BY n.id
ON CONFLICT (nas_id) DO UPDATE SET
    last_unsigned_at = greatest(known.last_unsigned_at, excluded.last_unsigned_at),
    last_signed_at = greatest(known.last_signed_at, excluded.last_signed_at),
    signs_since = (
        SELECT min(t.at) FROM (VALUES (known.signs_since), (excluded.signs_since)) t (at)
        WHERE t.at > coalesce(greatest(known.last_unsigned_at, excluded.last_unsigned_at), '-infinity')
    )
WHERE excluded.last_unsigned_at
        >= coalesce(known.signs_since, known.last_unsigned_at + interval '1 minute', '-infinity')
    OR excluded.last_signed_at >= known.last_signed_at + interval '1 minute'
    OR (known.signs_since IS NULL AND excluded.signs_since > coalesce(known.last_unsigned_at, '-infinity'))
"""


# Limit of NASes per rotation, because anyone who knows the secret can invent names.
MAX_NASES = 20_000

# Rotation id, key of the NAS, and secret ("old" or "new").
SecretSightingKey = tuple[str, str, str]


class SecretSightings:
    """Secrets that NASes used during a rotation. The agent writes one row for each NAS, at most once per batch."""

    def __init__(self) -> None:
        # Time of the last request in epoch microseconds; tenant id, NAS id and source address.
        self._seen: dict[SecretSightingKey, tuple[int, str, str, str]] = {}

    def add(self, record: AuthRecord | AccountingRecord, identifier: str) -> None:
        if not record.proof:
            return
        rotation, which, source = record.proof
        nas_key = record.nas_id or shorten_key(f"{identifier}|{record.nas_address}")
        key = (rotation, nas_key, which)
        if key not in self._seen or self._seen[key][0] < record.at:
            self._seen[key] = (record.at, record.tenant_id, record.nas_id, source)

    def write(self, cursor: psycopg.Cursor) -> None:
        lines = (
            copy_line(rotation, nas_key, which, str(at), tenant, nas, host_address(source))
            for (rotation, nas_key, which), (at, tenant, nas, source) in self._seen.items()
        )
        if copy_rows(cursor, _COPY_SECRETS, lines):
            cursor.execute(_MERGE_SECRETS, {"most": MAX_NASES})


def get_nas_identifier(record: AccountingRecord) -> str:
    return next((value for name, value in record.attributes if name == "NAS-Identifier"), "")


SECRETS_TABLE = """
CREATE TEMPORARY TABLE shipped_secrets (
    rotation_id uuid, nas_key text, which text, at bigint, tenant_id uuid, nas_id uuid, source inet
) ON COMMIT DELETE ROWS
"""
_COPY_SECRETS = "COPY shipped_secrets FROM STDIN (NULL '')"
# In the order of keys, so that the two streams do not deadlock.
_MERGE_SECRETS = """
INSERT INTO secret_sightings AS known (rotation_id, nas_key, tenant_id, nas_id, source, old_at, new_at, new_since)
SELECT s.rotation_id, s.nas_key, r.tenant_id, (array_agg(s.nas_id ORDER BY s.at DESC))[1],
    (array_agg(s.source ORDER BY s.at DESC))[1],
    to_timestamp(max(s.at) FILTER (WHERE s.which = 'old')::float8 / 1e6),
    to_timestamp(max(s.at) FILTER (WHERE s.which = 'new')::float8 / 1e6),
    to_timestamp(min(s.at) FILTER (WHERE s.which = 'new')::float8 / 1e6)
FROM shipped_secrets s JOIN secret_rotations r ON r.id = s.rotation_id AND r.tenant_id = s.tenant_id
WHERE (SELECT count(*) FROM secret_sightings o WHERE o.rotation_id = s.rotation_id) < %(most)s
GROUP BY s.rotation_id, s.nas_key, r.tenant_id
ORDER BY s.rotation_id, s.nas_key
ON CONFLICT (rotation_id, nas_key) DO UPDATE SET
    nas_id = excluded.nas_id, source = excluded.source,
    old_at = greatest(known.old_at, excluded.old_at), new_at = greatest(known.new_at, excluded.new_at),
    new_since = least(known.new_since, excluded.new_since)
"""
