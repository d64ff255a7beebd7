"""The two streams of the journal: how a batch of records becomes rows."""

from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

import msgspec
import psycopg

from nac.events import accounting, authentication
from nac.events.document import Event
from nac.events.event_values import EventTenant
from nac.ids import CellId
from nac.journal.records import AccountingRecord, AnyRecord, AuthRecord, CertificateSentRecord
from nac.self_tests.ticket import NAS_IDENTIFIER as SELF_TEST_NAS
from radius.agent import (
    hits,
    pool_leases,
    pool_sessions,
    restarts,
    rows,
    secret_sightings,
    session_counts,
    session_merge,
    session_recall,
    session_refusals,
    sightings,
    signature_sightings,
    usage,
)
from radius.agent.conversations import Conversations
from radius.agent.external import ExternalCertificates
from radius.agent.hits import Hits
from radius.agent.live import LiveBatch, LiveFeed, Make
from radius.agent.rows import copy_rows
from radius.agent.secret_sightings import SecretSightings, identifier_of
from radius.agent.session_counts import count_keys
from radius.agent.session_ends import Named
from radius.agent.session_keeping import Keeping
from radius.agent.sightings import ACCOUNTING_QUIET_MICROSECONDS, QUIET_MICROSECONDS, SightingBatch, Sightings
from radius.agent.signature_sightings import SignatureSightings
from radius.agent.stays import SessionBatch
from radius.agent.usage import Usage, accounting_line, accounting_record, read_usage

_decode = msgspec.msgpack.Decoder(AnyRecord).decode
_encode = msgspec.msgpack.Encoder().encode


class StrayRecord(ValueError):
    """The record belongs to no tenant of this cell, or not to this stream."""


class Work(Protocol):
    """One batch: filled record by record, then written. Its state counts only after the commit."""

    def take(self, payload: memoryview) -> int:
        """Add a record and return its time. If the record cannot be stored, raises and adds nothing."""

    def finish(self, now: int) -> None:
        """End the batch; `now` is how far the journal was read."""

    def recall(self, cursor: psycopg.Cursor) -> None:
        """Move back rows that old records of this batch may update."""

    def write(self, cursor: psycopg.Cursor, cell_id: CellId) -> None: ...

    def open_conversations(self) -> str:
        """JSON for journal_positions."""


class Stream(Protocol):
    # As in journal_positions; also the name of its folder.
    name: str
    # Temporary tables, because PostgreSQL refuses COPY into tables with row-level security.
    tables: tuple[str, ...]

    @property
    def is_watched(self) -> bool:
        """Whether a client watches the events of this stream."""

    def begin(self, tenants: frozenset[str]) -> Work: ...

    def committed(self, work: Work) -> None: ...

    def restore(self, open_conversations: str) -> None: ...

    def due(self, now: int) -> bool:
        """Whether there is something to write without a new record."""


class _Told:
    """A stream with live events."""

    live: LiveFeed | None

    @property
    def is_watched(self) -> bool:
        return self.live is not None and bool(self.live.wanted)


class AuthStream(_Told):
    name = "auth"
    tables: tuple[str, ...] = (
        rows.AUTH_TABLE,
        sightings.SIGHTINGS_TABLE,
        sightings.EVIDENCE_TABLE,
        hits.HITS_TABLE,
        secret_sightings.TABLE,
        signature_sightings.TABLE,
    )

    def __init__(self, live: LiveFeed | None = None) -> None:
        self.live = live
        self.sightings = Sightings(QUIET_MICROSECONDS)
        self.conversations = Conversations()
        self.forgotten_conversations = 0
        self.addresses_given_twice = 0

    def begin(self, tenants: frozenset[str]) -> "AuthWork":
        return AuthWork(
            tenants,
            self.conversations.copy(),
            self.sightings.batch(),
            _live_batch(self.live, auth_event, "auth_log_id_seq"),
        )

    def committed(self, work: Work) -> None:
        assert isinstance(work, AuthWork)
        self.conversations = work.conversations
        self.forgotten_conversations += work.conversations.forgotten
        self.addresses_given_twice += work.given_twice
        self.sightings.remember(work.sightings)
        if self.live:
            self.live.offer(work.live.told, work.live.noted)

    def restore(self, open_conversations: str) -> None:
        self.conversations = Conversations.from_json(open_conversations)

    def due(self, now: int) -> bool:
        return self.conversations.due(now)


class AuthWork:
    def __init__(
        self, tenants: frozenset[str], conversations: Conversations, seen: SightingBatch, live: LiveBatch
    ) -> None:
        self.live = live
        self._tenants = tenants
        self._lines: list[str] = []
        self.conversations = conversations
        self.sightings = seen
        self._hits = Hits()
        self._external = ExternalCertificates()
        self._secrets = SecretSightings()
        self._signatures = SignatureSightings()
        self._given: list[pool_leases.Given] = []
        # Addresses assigned while another device had them.
        self.given_twice = 0

    def take(self, payload: memoryview) -> int:
        record = _record(payload, self._tenants)
        if isinstance(record, CertificateSentRecord):
            if "\0" in record.identity:
                record = rows.cleaned(record)
            self.conversations.open(record)
            return record.at
        if not isinstance(record, AuthRecord):
            raise StrayRecord(f"a record of type {type(record).__name__} in the authentication journal")
        cleaned = len(payload) > rows.LARGE_PAYLOAD_BYTES
        try:
            line = rows.auth_line(record)
        except rows.Unstorable:
            record = rows.cleaned(record)
            line = rows.auth_line(record)
            cleaned = True
        if record.tenant_id in self.live.wanted:
            self.live.note(len(self._lines), record.tenant_id, bytes(payload), cleaned=cleaned)
        self._lines.append(line)
        if record.conversation:
            self.conversations.end(record.conversation)
        if record.nas_identifier == SELF_TEST_NAS:
            # No device: it is logged, without further effects.
            return record.at
        self._hits.add(record)
        self._external.add(record)
        self._secrets.add(record, record.nas_identifier)
        self._signatures.add(record)
        for pool_id, number, _ in record.addresses:
            self._given.append(pool_leases.Given(record.tenant_id, pool_id, number, record.mac, record.at))
        self.sightings.add_authentication(record)
        return record.at

    def finish(self, now: int) -> None:
        for record in self.conversations.take_abandoned(now):
            if record.tenant_id in self._tenants:
                if record.tenant_id in self.live.wanted:
                    self.live.note(len(self._lines), record.tenant_id, _encode(record), cleaned=False)
                self._lines.append(rows.auth_line(record))

    def recall(self, cursor: psycopg.Cursor) -> None:
        """Do nothing: decisions update no old rows."""

    def write(self, cursor: psycopg.Cursor, cell_id: CellId) -> None:
        if copy_rows(cursor, rows.AUTH_COPY, rows.numbered(self._lines, self.live.take_numbers(cursor))):
            cursor.execute(rows.AUTH_INSERT, (cell_id,))
        write_sightings(cursor, self.sightings)
        if copy_rows(cursor, hits.HITS_COPY, self._hits.lines()):
            cursor.execute(hits.HITS_MERGE)
        self._external.write(cursor)
        self._secrets.write(cursor)
        self._signatures.write(cursor)
        self.given_twice = pool_leases.give(cursor, cell_id, self._given)

    def open_conversations(self) -> str:
        return self.conversations.to_json()


class AccountingStream(_Told):
    name = "acct"
    tables: tuple[str, ...] = (
        usage.ACCOUNTING_TABLE,
        session_merge.STAYS_TABLE,
        restarts.RESTARTS_TABLE,
        sightings.SIGHTINGS_TABLE,
        sightings.EVIDENCE_TABLE,
        secret_sightings.TABLE,
    )

    def __init__(
        self,
        counted: Callable[[], frozenset[str]] = frozenset,
        live: LiveFeed | None = None,
        hears: Callable[[], bool] = lambda: True,
    ) -> None:
        """`counted` returns the tenants whose live sessions the replica counts, `hears` whether radiusd answers."""
        self.live = live
        self.sightings = Sightings(ACCOUNTING_QUIET_MICROSECONDS)
        self.keeping = Keeping()
        self._counted = counted
        self._hears = hears

    def begin(self, tenants: frozenset[str]) -> "AccountingWork":
        live = _live_batch(self.live, accounting_event, "accounting_log_id_seq")
        return AccountingWork(tenants, self.sightings.batch(), self._counted(), self.keeping, live, hears=self._hears())

    def committed(self, work: Work) -> None:
        assert isinstance(work, AccountingWork)
        self.sightings.remember(work.sightings)
        self.keeping = work.keeping
        if self.live:
            self.live.offer(work.live.told, work.live.noted)

    def restore(self, open_conversations: str) -> None:
        """Restore until when accounting was received; accounting has no conversations."""
        self.keeping = Keeping.from_json(open_conversations)

    def due(self, now: int) -> bool:
        return self.keeping.is_due(now)


class AccountingWork:
    def __init__(
        self,
        tenants: frozenset[str],
        seen: SightingBatch,
        counted: frozenset[str],
        keeping: Keeping,
        live: LiveBatch,
        *,
        hears: bool,
    ) -> None:
        self.live = live
        self.sightings = seen
        self.keeping = keeping
        self._counted = counted
        self._tenants = tenants
        self._lines: list[str] = []
        self._sessions = SessionBatch()
        self._secrets = SecretSightings()
        self._hears = hears
        self._now = 0

    def take(self, payload: memoryview) -> int:
        record = _record(payload, self._tenants)
        if not isinstance(record, AccountingRecord):
            raise StrayRecord(f"a record of type {type(record).__name__} in the accounting journal")
        cleaned = len(payload) > rows.LARGE_PAYLOAD_BYTES
        used = read_usage(record)
        position = len(self._lines)
        try:
            self.log(record, used)
        except rows.Unstorable:
            record = rows.cleaned(record)
            used = read_usage(record)
            self.log(record, used)
            cleaned = True
        if record.tenant_id in self.live.wanted:
            self.live.note(position, record.tenant_id, bytes(payload), cleaned=cleaned)
        self._sessions.add(used)
        self._secrets.add(record, identifier_of(record))
        self.sightings.add_accounting(record, used)
        return record.at

    def log(self, record: AccountingRecord, used: Usage) -> None:
        """Store the record unchanged. Raises Unstorable."""
        self._lines.append(accounting_line(record, used))

    def finish(self, now: int) -> None:
        self._now = now
        if self._lines or self._hears:
            self.keeping = self.keeping.heard(now)

    def recall(self, cursor: psycopg.Cursor) -> None:
        session_recall.recall(cursor, self._sessions)

    def write(self, cursor: psycopg.Cursor, cell_id: CellId) -> None:
        if copy_rows(cursor, usage.ACCOUNTING_COPY, rows.numbered(self._lines, self.live.take_numbers(cursor))):
            cursor.execute(usage.ACCOUNTING_INSERT, (cell_id,))
        if restarts.keep(cursor, self._sessions):
            self.keeping = replace(self.keeping, ending=True)
        merged = session_merge.merge(cursor, self._sessions)
        session_refusals.end_refused(cursor, merged.begun)
        pool_sessions.hear(cursor, cell_id, self._sessions.going_on(), now=self._now)
        write_sightings(cursor, self.sightings)
        self._secrets.write(cursor)
        ended: list[Named] = merged.superseded
        if self.keeping.is_due(self._now):
            self.keeping, kept = self.keeping.run(cursor, self._tenants, self._now)
            ended = ended + kept
        changed = [*self._sessions.changed_counts(self._counted), *count_keys(ended, self._counted)]
        if changed:
            cursor.execute(session_counts.TELL, tuple(map(list, zip(*changed, strict=True))))

    def open_conversations(self) -> str:
        return self.keeping.to_json()


def _live_batch(feed: LiveFeed | None, make: Make, sequence: str) -> LiveBatch:
    """A batch of live events; empty without a feed."""
    return LiveBatch(make, sequence, feed.wanted if feed else frozenset())


def auth_event(payload: bytes, cleaned: bool, number: int, tenant: EventTenant) -> Event:
    record: AuthRecord = _decode(payload)
    return authentication.from_record(rows.cleaned(record) if cleaned else record, number=number, tenant=tenant)


def accounting_event(payload: bytes, cleaned: bool, number: int, tenant: EventTenant) -> Event:
    record: AccountingRecord = _decode(payload)
    record = rows.cleaned(record) if cleaned else record
    told = accounting_record(record, read_usage(record))
    return accounting.from_record(told, number=number, tenant=tenant)


def _record(payload: memoryview, tenants: frozenset[str]) -> AnyRecord:
    record: AnyRecord = _decode(payload)
    if len(payload) > rows.LARGE_PAYLOAD_BYTES:
        record = rows.cleaned(record)
    if record.tenant_id not in tenants:
        raise StrayRecord(f"tenant {record.tenant_id or '(none)'} has no slot in this cell")
    return record


def write_sightings(cursor: psycopg.Cursor, seen: SightingBatch) -> None:
    if not copy_rows(cursor, sightings.SIGHTINGS_COPY, seen.sighting_lines()):
        return
    seen.leave_room(cursor)
    given = {"full": list(seen.full)}
    cursor.execute(sightings.SIGHTINGS_MERGE, given)
    if copy_rows(cursor, sightings.EVIDENCE_COPY, seen.evidence_lines()):
        cursor.execute(sightings.EVIDENCE_MERGE, given)
