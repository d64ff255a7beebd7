"""Quarantine for journal records that cannot be stored.

The quarantine is a table. The agent writes the table in the transaction that advances the position in the journal.

So each record enters the quarantine exactly once. An attempt that fails or is killed before the commit stores nothing.
A file beside the journal could repeat or lose records.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal
from uuid import UUID

import msgspec
import psycopg

from nac.cellformat.journal.records import AnyRecord
from nac.kit.ids import CellId

# Limit of records for one stream of a cell, about 100 MB. Further records are counted, reported and lost.
MAX_RECORDS = 100_000
_MAX_REASON_CHARACTERS = 500

_KEEP = """
INSERT INTO quarantined_records (cell_id, stream, tenant_id, why, payload) VALUES (%s, %s, %s, %s, %s)
"""
# Excludes records that another cell handed over: they are shipped within seconds.
_COUNT = "SELECT count(*) FROM quarantined_records WHERE cell_id = %s AND stream = %s AND NOT handed_over"

_decode = msgspec.msgpack.Decoder(AnyRecord).decode


@dataclass(frozen=True, slots=True)
class RejectedRecord:
    """A record that is not stored, with the reason: its tenant is in another cell, or the record is invalid."""

    payload: memoryview
    kind: Literal["stray", "quarantined"]
    why: str


def quarantine_records(cursor: psycopg.Cursor, cell_id: CellId, stream: str, records: Sequence[RejectedRecord]) -> int:
    """Add records to the quarantine, up to MAX_RECORDS.

    Returns the number of records above the limit, which are lost.
    """
    if not records:
        return 0
    (held,) = cursor.execute(_COUNT, (cell_id, stream)).fetchone() or (0,)
    kept = records[: max(0, MAX_RECORDS - held)]
    rows = [(cell_id, stream, _tenant_of(each.payload), _clean_reason(each.why), bytes(each.payload)) for each in kept]
    cursor.executemany(_KEEP, rows)
    return len(records) - len(kept)


def _tenant_of(payload: memoryview) -> UUID | None:
    try:
        return UUID(_decode(payload).tenant_id)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None


def _clean_reason(why: str) -> str:
    return why.replace("\0", "")[:_MAX_REASON_CHARACTERS]
