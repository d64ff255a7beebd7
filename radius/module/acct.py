"""Function that radiusd calls for accounting.

The function acknowledges a request only after the record is in the journal (RFC 2866 2).
"""

from pathlib import Path

from nac.cellformat.journal.records import AccountingRecord
from nac.cellformat.packet_values import is_recordable
from nac.cellformat.self_test_ticket import NAS_IDENTIFIER
from nac.inventory.profiling.sensor import is_sensor_pair
from nac.kit import clock
from radius.module import radiusd_api as radiusd
from radius.module.cell import Cell, Journal, get_cell, log_exception
from radius.module.decision import LocationCache
from radius.module.login_checks import read_self_test_ticket
from radius.module.repeated_records import RecentRecords, read_predecessor_records, repeat_keys
from radius.module.request import AccessRequest

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
    except Exception:  # house-rule: the edge of our code; unanswered, so the NAS keeps the record and repeats it
        log_exception("accounting")
        return radiusd.FAIL
    return radiusd.OK if written else radiusd.FAIL
