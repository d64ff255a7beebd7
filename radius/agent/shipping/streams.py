"""The two streams of the journal, and how each stream converts a batch of records into rows.

`HitCounts` counts the hits of each rule by policy version and UTC day. A batch writes only the sums, to write fewer
rows.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Protocol

import msgspec
import psycopg

from nac.cellformat.journal.records import AccountingRecord, AnyRecord, AuthRecord, CertificateSentRecord
from nac.cellformat.self_test_ticket import NAS_IDENTIFIER as SELF_TEST_NAS
from nac.kit.ids import CellId
from nac.logs.events import accounting, authentication
from nac.logs.events.document import Event
from nac.logs.events.event_values import EventTenant
from radius.agent import accounting_parser, copy_format
from radius.agent.accounting_parser import ParsedAccounting, accounting_line, accounting_record, parse_accounting
from radius.agent.copy_format import copy_line, copy_rows
from radius.agent.pools import leases
from radius.agent.sessions import counts, merge, nas_restarts
from radius.agent.sessions.batch import SessionBatch
from radius.agent.sessions.counts import count_keys
from radius.agent.sessions.ends import SessionIdentity
from radius.agent.sessions.maintenance import SessionMaintenance
from radius.agent.shipping import sightings
from radius.agent.shipping.conversations import OpenConversations
from radius.agent.shipping.decision_counts import DecisionCounts
from radius.agent.shipping.external_certificates import ExternalCertificates
from radius.agent.shipping.live_feed import EventFactory, LiveBatch, LiveFeed
from radius.agent.shipping.nas_sightings import NasSightings, RecentNases
from radius.agent.shipping.sightings import (
    ACCOUNTING_QUIET_MICROSECONDS,
    QUIET_MICROSECONDS,
    RecentSightings,
    SecretSightings,
    SightingBatch,
    SignatureSightings,
    get_nas_identifier,
)

_DAY_MICROSECONDS = 86_400_000_000

# Tenant id, policy id, version, rule ("" for the fallback), days since 1970-01-01.
HitKey = tuple[str, str, int, str, int]


class HitCounts:
    def __init__(self) -> None:
        # Number of decisions, and time of the last decision in epoch microseconds.
        self._counted: dict[HitKey, tuple[int, int]] = {}

    def add(self, record: AuthRecord) -> None:
        # Without a policy id, no policy decided: invalid credentials, no site, or no published policy.
        if record.policy_id:
            key = (
                record.tenant_id,
                record.policy_id,
                record.policy_version,
                record.rule_id,
                record.at // _DAY_MICROSECONDS,
            )
            count, last = self._counted.get(key, (0, 0))
            self._counted[key] = (count + 1, max(last, record.at))

    def lines(self) -> Iterable[str]:
        for (tenant, policy, version, rule, day), (count, last) in self._counted.items():
            yield copy_line(tenant, policy, str(version), rule, str(day), str(count), str(last))


HITS_TABLE = """
CREATE TEMPORARY TABLE shipped_hits (
    tenant_id uuid, policy_id uuid, version int, rule_id text, day int, hits bigint, last_at bigint
) ON COMMIT DELETE ROWS
"""
HITS_COPY = "COPY shipped_hits FROM STDIN (NULL '')"
# In the order of keys, so that two cells of one tenant do not deadlock.
HITS_MERGE = """
INSERT INTO policy_hits AS known (tenant_id, policy_id, version, rule_id, day, hits, last_at)
SELECT tenant_id, policy_id, version, coalesce(rule_id, ''), date '1970-01-01' + day, hits,
    to_timestamp(last_at::float8 / 1e6)
FROM shipped_hits
ORDER BY tenant_id, policy_id, version, rule_id, day
ON CONFLICT (tenant_id, policy_id, version, rule_id, day) DO UPDATE SET
    hits = known.hits + excluded.hits, last_at = greatest(known.last_at, excluded.last_at)
"""


_decode = msgspec.msgpack.Decoder(AnyRecord).decode
_encode = msgspec.msgpack.Encoder().encode


class StrayRecord(ValueError):
    """The record belongs to a tenant outside this cell, or to the other stream of the journal."""


class StreamBatch(Protocol):
    """One batch of records: the caller adds records, then writes the batch. Changes of the stream's state take
    effect only after the commit."""

    def take(self, payload: memoryview) -> int:
        """Add a record and return its time. If the record cannot be stored, raises an error and adds nothing."""

    def finish(self, now: int) -> None:
        """End the batch. `now` is the time up to which the agent has read the journal (epoch microseconds)."""

    def recall(self, cursor: psycopg.Cursor) -> None:
        """Move sessions from the history to the table `sessions`, if this batch may update the sessions."""

    def write(self, cursor: psycopg.Cursor, cell_id: CellId) -> None: ...

    def open_conversations(self) -> str:
        """Return the stream's state as JSON, for the column `journal_positions.open_conversations`."""


class Stream(Protocol):
    # Name of the stream in journal_positions, and of its folder.
    name: str
    # SQL statements that create temporary tables, because PostgreSQL rejects COPY into tables with row-level security.
    tables: tuple[str, ...]

    @property
    def is_watched(self) -> bool:
        """Whether a client watches the events of this stream."""

    def begin(self, tenants: frozenset[str]) -> StreamBatch: ...

    def committed(self, work: StreamBatch) -> None: ...

    def restore(self, open_conversations: str) -> None: ...

    def due(self, now: int) -> bool:
        """Whether the stream has something to write although no record has arrived."""


class _LiveStream:
    live: LiveFeed | None

    @property
    def is_watched(self) -> bool:
        return self.live is not None and bool(self.live.wanted)


class AuthStream(_LiveStream):
    name = "auth"
    tables: tuple[str, ...] = (
        copy_format.AUTH_TABLE,
        sightings.SIGHTINGS_TABLE,
        sightings.EVIDENCE_TABLE,
        HITS_TABLE,
        sightings.SECRETS_TABLE,
        sightings.SIGNATURES_TABLE,
    )

    def __init__(self, live: LiveFeed | None = None) -> None:
        self.live = live
        self.sightings = RecentSightings(QUIET_MICROSECONDS)
        self.nases = RecentNases()
        self.conversations = OpenConversations()
        self.forgotten_conversations = 0
        self.addresses_given_twice = 0

    def begin(self, tenants: frozenset[str]) -> "AuthBatch":
        return AuthBatch(
            tenants,
            self.conversations.copy(),
            self.sightings.batch(),
            self.nases.batch(),
            _live_batch(self.live, auth_event, "auth_log_id_seq"),
        )

    def committed(self, work: StreamBatch) -> None:
        assert isinstance(work, AuthBatch)
        self.conversations = work.conversations
        self.forgotten_conversations += work.conversations.forgotten
        self.addresses_given_twice += work.given_twice
        self.sightings.remember(work.sightings)
        self.nases.remember(work.nases)
        if self.live:
            self.live.offer(work.live.items, work.live.noted)

    def restore(self, open_conversations: str) -> None:
        self.conversations = OpenConversations.from_json(open_conversations)

    def due(self, now: int) -> bool:
        return self.conversations.due(now)


class AuthBatch:
    def __init__(
        self,
        tenants: frozenset[str],
        conversations: OpenConversations,
        seen: SightingBatch,
        nases: NasSightings,
        live: LiveBatch,
    ) -> None:
        self.live = live
        self._tenants = tenants
        self._lines: list[str] = []
        self.conversations = conversations
        self.sightings = seen
        self.nases = nases
        self._hits = HitCounts()
        self._counts = DecisionCounts()
        self._external = ExternalCertificates()
        self._secrets = SecretSightings()
        self._signatures = SignatureSightings()
        self._given: list[leases.AddressAssignment] = []
        # Number of addresses that were assigned while another device had them.
        self.given_twice = 0

    def take(self, payload: memoryview) -> int:
        record = _decode_record(payload, self._tenants)
        if isinstance(record, CertificateSentRecord):
            if "\0" in record.identity:
                record = copy_format.clean_record(record)
            self.conversations.open(record)
            return record.at
        if not isinstance(record, AuthRecord):
            raise StrayRecord(f"a record of type {type(record).__name__} in the authentication journal")
        cleaned = len(payload) > copy_format.LARGE_PAYLOAD_BYTES
        try:
            line = copy_format.auth_line(record)
        except copy_format.Unstorable:
            record = copy_format.clean_record(record)
            line = copy_format.auth_line(record)
            cleaned = True
        if record.tenant_id in self.live.wanted:
            self.live.note(len(self._lines), record.tenant_id, bytes(payload), cleaned=cleaned)
        self._lines.append(line)
        if record.conversation:
            self.conversations.end(record.conversation)
        if record.nas_identifier == SELF_TEST_NAS:
            # A record without a device is logged and has no further effects.
            return record.at
        self._counts.add(record)
        self.nases.add(record)
        self._hits.add(record)
        self._external.add(record)
        self._secrets.add(record, record.nas_identifier)
        self._signatures.add(record)
        for pool_id, number, _ in record.addresses:
            self._given.append(leases.AddressAssignment(record.tenant_id, pool_id, number, record.mac, record.at))
        self.sightings.add_authentication(record)
        return record.at

    def finish(self, now: int) -> None:
        for record in self.conversations.take_abandoned(now):
            if record.tenant_id in self._tenants:
                if record.tenant_id in self.live.wanted:
                    self.live.note(len(self._lines), record.tenant_id, _encode(record), cleaned=False)
                self._lines.append(copy_format.auth_line(record))
                if record.nas_identifier != SELF_TEST_NAS:
                    self._counts.add(record)

    def recall(self, cursor: psycopg.Cursor) -> None:
        """Do nothing, because decisions do not update old rows."""

    def write(self, cursor: psycopg.Cursor, cell_id: CellId) -> None:
        if copy_rows(
            cursor, copy_format.AUTH_COPY, copy_format.number_lines(self._lines, self.live.take_numbers(cursor))
        ):
            cursor.execute(copy_format.AUTH_INSERT, (cell_id,))
        write_sightings(cursor, self.sightings)
        if copy_rows(cursor, HITS_COPY, self._hits.lines()):
            cursor.execute(HITS_MERGE)
        self._counts.write(cursor)
        self._external.write(cursor)
        self._secrets.write(cursor)
        self._signatures.write(cursor)
        self.given_twice = leases.record_assignments(cursor, cell_id, self._given)
        self.nases.write(cursor)

    def open_conversations(self) -> str:
        return self.conversations.to_json()


class AccountingStream(_LiveStream):
    name = "acct"
    tables: tuple[str, ...] = (
        accounting_parser.ACCOUNTING_TABLE,
        merge.SESSION_UPDATES_TABLE,
        nas_restarts.RESTARTS_TABLE,
        sightings.SIGHTINGS_TABLE,
        sightings.EVIDENCE_TABLE,
        sightings.SECRETS_TABLE,
    )

    def __init__(
        self,
        counted: Callable[[], frozenset[str]] = frozenset,
        live: LiveFeed | None = None,
        hears: Callable[[], bool] = lambda: True,
    ) -> None:
        """Create the stream. `counted` returns tenants whose live sessions the replica counts.

        `hears` returns whether radiusd responds.
        """
        self.live = live
        self.sightings = RecentSightings(ACCOUNTING_QUIET_MICROSECONDS)
        self.nases = RecentNases()
        self.keeping = SessionMaintenance()
        self._counted = counted
        self._hears = hears

    def begin(self, tenants: frozenset[str]) -> "AccountingBatch":
        live = _live_batch(self.live, accounting_event, "accounting_log_id_seq")
        return AccountingBatch(
            tenants,
            self.sightings.batch(),
            self.nases.batch(),
            self._counted(),
            self.keeping,
            live,
            hears=self._hears(),
        )

    def committed(self, work: StreamBatch) -> None:
        assert isinstance(work, AccountingBatch)
        self.sightings.remember(work.sightings)
        self.nases.remember(work.nases)
        self.keeping = work.keeping
        if self.live:
            self.live.offer(work.live.items, work.live.noted)

    def restore(self, open_conversations: str) -> None:
        """Restore the period in which the cell could receive accounting. This stream has no open conversations."""
        self.keeping = SessionMaintenance.from_json(open_conversations)

    def due(self, now: int) -> bool:
        return self.keeping.is_due(now)


class AccountingBatch:
    def __init__(
        self,
        tenants: frozenset[str],
        seen: SightingBatch,
        nases: NasSightings,
        counted: frozenset[str],
        keeping: SessionMaintenance,
        live: LiveBatch,
        *,
        hears: bool,
    ) -> None:
        self.live = live
        self.sightings = seen
        self.nases = nases
        self.keeping = keeping
        self._counted = counted
        self._tenants = tenants
        self._lines: list[str] = []
        self._sessions = SessionBatch()
        self._secrets = SecretSightings()
        self._hears = hears
        self._now = 0

    def take(self, payload: memoryview) -> int:
        record = _decode_record(payload, self._tenants)
        if not isinstance(record, AccountingRecord):
            raise StrayRecord(f"a record of type {type(record).__name__} in the accounting journal")
        cleaned = len(payload) > copy_format.LARGE_PAYLOAD_BYTES
        used = parse_accounting(record)
        position = len(self._lines)
        try:
            self.log(record, used)
        except copy_format.Unstorable:
            record = copy_format.clean_record(record)
            used = parse_accounting(record)
            self.log(record, used)
            cleaned = True
        if record.tenant_id in self.live.wanted:
            self.live.note(position, record.tenant_id, bytes(payload), cleaned=cleaned)
        self._sessions.add(used)
        self.nases.add(record)
        self._secrets.add(record, get_nas_identifier(record))
        self.sightings.add_accounting(record, used)
        return record.at

    def log(self, record: AccountingRecord, used: ParsedAccounting) -> None:
        """Add the record to the log as the NAS sent it. Raises Unstorable."""
        self._lines.append(accounting_line(record, used))

    def finish(self, now: int) -> None:
        self._now = now
        if self._lines or self._hears:
            self.keeping = self.keeping.heard(now)

    def recall(self, cursor: psycopg.Cursor) -> None:
        merge.recall_sessions(cursor, self._sessions)

    def write(self, cursor: psycopg.Cursor, cell_id: CellId) -> None:
        if copy_rows(
            cursor,
            accounting_parser.ACCOUNTING_COPY,
            copy_format.number_lines(self._lines, self.live.take_numbers(cursor)),
        ):
            cursor.execute(accounting_parser.ACCOUNTING_INSERT, (cell_id,))
        if nas_restarts.record_restarts(cursor, self._sessions):
            self.keeping = replace(self.keeping, ending=True)
        merged = merge.merge_sessions(cursor, self._sessions)
        merge.end_refused_sessions(cursor, merged.begun)
        leases.reclaim_addresses(cursor, cell_id, self._sessions.list_ongoing(), now=self._now)
        write_sightings(cursor, self.sightings)
        self._secrets.write(cursor)
        ended: list[SessionIdentity] = merged.superseded
        if self.keeping.is_due(self._now):
            self.keeping, kept = self.keeping.run(cursor, self._tenants, self._now)
            ended = ended + kept
        changed = [*self._sessions.changed_counts(self._counted), *count_keys(ended, self._counted)]
        if changed:
            cursor.execute(counts.NOTIFY_COUNTS, tuple(map(list, zip(*changed, strict=True))))
        self.nases.write(cursor)

    def open_conversations(self) -> str:
        return self.keeping.to_json()


def _live_batch(feed: LiveFeed | None, make: EventFactory, sequence: str) -> LiveBatch:
    """Create a batch of live events. If `feed` is None, the batch collects nothing."""
    return LiveBatch(make, sequence, feed.wanted if feed else frozenset())


def auth_event(payload: bytes, cleaned: bool, number: int, tenant: EventTenant) -> Event:
    record: AuthRecord = _decode(payload)
    return authentication.from_record(
        copy_format.clean_record(record) if cleaned else record, number=number, tenant=tenant
    )


def accounting_event(payload: bytes, cleaned: bool, number: int, tenant: EventTenant) -> Event:
    record: AccountingRecord = _decode(payload)
    record = copy_format.clean_record(record) if cleaned else record
    row = accounting_record(record, parse_accounting(record))
    return accounting.from_record(row, number=number, tenant=tenant)


def _decode_record(payload: memoryview, tenants: frozenset[str]) -> AnyRecord:
    record: AnyRecord = _decode(payload)
    if len(payload) > copy_format.LARGE_PAYLOAD_BYTES:
        record = copy_format.clean_record(record)
    if record.tenant_id not in tenants:
        raise StrayRecord(f"tenant {record.tenant_id or '(none)'} has no slot in this cell")
    return record


def write_sightings(cursor: psycopg.Cursor, seen: SightingBatch) -> None:
    if not copy_rows(cursor, sightings.SIGHTINGS_COPY, seen.sighting_lines()):
        return
    seen.find_full_queues(cursor)
    parameters = {"full": list(seen.full)}
    cursor.execute(sightings.SIGHTINGS_MERGE, parameters)
    if copy_rows(cursor, sightings.EVIDENCE_COPY, seen.evidence_lines()):
        cursor.execute(sightings.EVIDENCE_MERGE, parameters)
