"""Variants of the table accounting_log, to measure the cost of storing an accounting record's attributes."""

from typing import Literal, get_args

import msgspec

from nac.cellformat.journal.records import AccountingRecord
from radius.agent.accounting_parser import ParsedAccounting
from radius.agent.sessions.maintenance import SessionMaintenance
from radius.agent.shipping.live_feed import LiveBatch
from radius.agent.shipping.nas_sightings import NasSightings
from radius.agent.shipping.sightings import SightingBatch
from radius.agent.shipping.streams import AccountingBatch, AccountingStream, accounting_event

# all: all attributes, as in Admit. chosen: only attributes that have no column of their own. none: columns, but no
# attributes. no log: no row in accounting_log, only sessions and usage.
LogDetail = Literal["all", "chosen", "none", "no log"]
DETAILS: tuple[LogDetail, ...] = get_args(LogDetail)
_IN_COLUMNS = frozenset(
    (
        "User-Name",
        "NAS-IP-Address",
        "NAS-Identifier",
        "Calling-Station-Id",
        "Acct-Status-Type",
        "Acct-Session-Id",
        "Acct-Session-Time",
        "Acct-Input-Octets",
        "Acct-Output-Octets",
        "Acct-Input-Gigawords",
        "Acct-Output-Gigawords",
        "Acct-Terminate-Cause",
    )
)


class DetailStream(AccountingStream):
    """Admit's accounting stream, with different content in accounting_log."""

    def __init__(self, detail: LogDetail) -> None:
        super().__init__()
        self._detail = detail

    def begin(self, tenants: frozenset[str]) -> "DetailBatch":
        return DetailBatch(tenants, self.sightings.batch(), self.nases.batch(), self.keeping, self._detail)


class DetailBatch(AccountingBatch):
    def __init__(
        self,
        tenants: frozenset[str],
        seen: SightingBatch,
        nases: NasSightings,
        keeping: SessionMaintenance,
        detail: LogDetail,
    ) -> None:
        nobody_listens = LiveBatch(accounting_event, "accounting_log_id_seq", frozenset())
        super().__init__(tenants, seen, nases, frozenset(), keeping, nobody_listens, hears=True)
        self._detail = detail

    def log(self, record: AccountingRecord, used: ParsedAccounting) -> None:
        if self._detail == "no log":
            return
        if self._detail == "none":
            record = msgspec.structs.replace(record, attributes=())
        elif self._detail == "chosen":
            kept = tuple(pair for pair in record.attributes if pair[0] not in _IN_COLUMNS)
            record = msgspec.structs.replace(record, attributes=kept)
        super().log(record, used)
