"""Function that radiusd calls for accounting.

The function acknowledges a request only after the record is in the journal (RFC 2866 2).

A NAS that missed the response repeats its request. `RecentRecords` detects requests whose record is already in the
journal. radiusd itself answers repetitions only for cleanup_delay (11 s), and a new radiusd does not know earlier
responses. But NASes repeat their records for longer than 11 s. With a new Acct-Delay-Time, the repetition is a
different packet (RFC 2866 5.2). So Admit compares the record and the time of its event. The time is necessary, because
two different records of a NAS may differ only in their delay, such as the records of two restarts after an outage.
"""

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import msgspec

from nac.cellformat.journal.reader import read_tail
from nac.cellformat.journal.records import AccountingRecord
from nac.cellformat.packet_values import is_recordable
from nac.cellformat.self_test_ticket import NAS_IDENTIFIER
from nac.inventory.profiling.sensor import is_sensor_pair
from nac.kit import clock
from radius.module import radiusd_api as radiusd
from radius.module.cell import Cell, Journal, get_cell, log_exception
from radius.module.decision import LocationCache
from radius.module.login_checks import read_self_test_ticket
from radius.module.request import AccessRequest

# NASes stop repeating after 30 s at most (RFC 5080 2.2.1).
WINDOW_MICROSECONDS = 30_000_000
# Limit of keys for each of the two generations; 60 bytes each. Above 8,000 records a second, the window becomes
# shorter.
MAX_KEYS = 250_000
# Bytes of the journal that are read at the start: about 20,000 records.
MAX_BYTES = 16 << 20

_PER_PACKET = frozenset(("Acct-Delay-Time", "Message-Authenticator", "Proxy-State"))
_decode = msgspec.msgpack.Decoder(AccountingRecord).decode


class RecentRecords:
    """Hashes of the records of the last 30 to 60 s, in two sets. When a new set begins, Admit drops the older set."""

    def __init__(self, records: Iterable[AccountingRecord] = (), *, max_keys: int = MAX_KEYS) -> None:
        self._max_keys = max_keys
        self._newer: set[int] = set()
        self._older: set[int] = set()
        self._since = 0
        for record in records:
            self.add(repeat_keys(record)[0], record.at)

    def __contains__(self, key: int) -> bool:
        return key in self._newer or key in self._older

    def add(self, key: int, at: int) -> None:
        """Add a key. `at` is in epoch microseconds. If the clock was set back, keys stay longer."""
        if at - self._since >= WINDOW_MICROSECONDS or len(self._newer) >= self._max_keys:
            is_recent = at - self._since < 2 * WINDOW_MICROSECONDS
            self._older, self._newer, self._since = self._newer if is_recent else set(), set(), at
        self._newer.add(key)


def repeat_keys(record: AccountingRecord) -> tuple[int, ...]:
    """Keys of the record for the minute of its event, and for the minutes before and after.

    The keys are hashes, valid only in this process. A NAS that sends no Acct-Delay-Time seems to repeat an event at a
    later time, so the neighbouring minutes are compared, too.
    """
    digest = hash(
        (
            record.tenant_id,
            record.nas_address,
            tuple([pair for pair in record.attributes if pair[0] not in _PER_PACKET]),
        )
    )
    delay = next((value for name, value in record.attributes if name == "Acct-Delay-Time"), "")
    happened = record.at - (int(delay) * 1_000_000 if delay.isdecimal() else 0)
    minute = happened // (2 * WINDOW_MICROSECONDS)
    return tuple([hash((digest, each)) for each in (minute, minute - 1, minute + 1)])


def read_predecessor_records(directory: Path, *, now: int) -> list[AccountingRecord]:
    """Read the journal's records of the last 30 s. Call this function before this process writes to the journal."""
    records = []
    for payload in read_tail(directory, max_bytes=MAX_BYTES):
        # Records that another version of Admit wrote must not prevent radiusd's start.
        with suppress(msgspec.DecodeError):
            record = _decode(payload)
            if now - record.at < WINDOW_MICROSECONDS:
                records.append(record)
    return records


_STREAM = "acct"
_cell: Cell
_journal: Journal
_recent_records: RecentRecords
_locations = LocationCache()


def instantiate(_: object) -> int:
    global _cell, _journal, _recent_records
    _cell = get_cell()
    directory = Path(_cell.settings.journal_directory) / _STREAM
    _recent_records = RecentRecords(read_predecessor_records(directory, now=clock.epoch_microseconds()))
    _journal = _cell.journal(_STREAM)
    return radiusd.OK


def detach(_: object) -> int:
    _journal.close()
    return radiusd.OK


def accounting(pairs: radiusd.Pairs) -> radiusd.ModuleResult:
    try:
        request = AccessRequest(pairs)
        with _cell.replica.begin() as view:
            place = _locations.find(request, view)
        slot = place.slot
        if slot is None:
            return radiusd.FAIL
        if (
            request.nas_identifier == NAS_IDENTIFIER
            and read_self_test_ticket(request, slot, clock.epoch_seconds()) is not None
        ):
            # The record is in the journal already, so only acknowledge it.
            return radiusd.OK
        record = AccountingRecord(
            clock.epoch_microseconds(),
            request.slot,
            slot.tenant_id,
            place.site_id,
            place.nas_id,
            request.nas_address,
            tuple(pair for pair in request.pairs if is_recordable(pair[0]) and is_sensor_pair(pair)),
            request.is_filtered,
            request.proof,
        )
        keys = repeat_keys(record)
        if any(key in _recent_records for key in keys):
            return radiusd.OK
        written = _journal.append(record)
        if written:
            _recent_records.add(keys[0], record.at)
    except Exception:  # house-rule: the edge of our code; without a response, the NAS repeats the record
        log_exception("accounting")
        return radiusd.FAIL
    return radiusd.OK if written else radiusd.FAIL
