"""Numbered journal records, and a reader of a complete journal."""

import msgspec

from nac.cellformat.journal.reader import JournalReader, SegmentPosition
from nac.cellformat.journal.records import AccountingRecord, AnyRecord

decode = msgspec.msgpack.Decoder(AnyRecord).decode


def numbered(number):
    return AccountingRecord(number, 1, "tenant", "", "", "192.0.2.1", (("Acct-Session-Id", str(number)),))


def read_all(directory, position=None, **limits):
    """Everything after `position`: (payloads, cuts, new position)."""
    reader = JournalReader(directory)
    position = position or SegmentPosition()
    payloads, cuts = [], []
    while True:
        batch = reader.read_batch(position, **limits)
        payloads += [bytes(payload) for payload in batch.payloads]
        cuts += batch.cuts
        if batch.position == position:
            reader.close()
            return payloads, cuts, position
        position = batch.position


def read_numbers(directory, **limits):
    return [decode(payload).at for payload in read_all(directory, **limits)[0]]
