"""Numbered journal records, and a reader of a complete journal."""

import msgspec

from nac.cellformat.journal.reader import JournalReader, SegmentPosition
from nac.cellformat.journal.records import AccountingRecord, AnyRecord

decode = msgspec.msgpack.Decoder(AnyRecord).decode


def numbered(number):
    return AccountingRecord(number, 1, "tenant", "", "", "192.0.2.1", (("Acct-Session-Id", str(number)),))


def append(writer, *numbers):
    for number in numbers:
        writer.append(numbered(number))


def read_all(directory, position=None, **limits):
    """Everything after `position`: (numbers of the records, cuts, new position)."""
    reader = JournalReader(directory)
    position = position or SegmentPosition()
    numbers, cuts = [], []
    while True:
        batch = reader.read_batch(position, **limits)
        numbers += [decode(payload).at for payload in batch.payloads]
        cuts += batch.cuts
        if batch.position == position:
            reader.close()
            return numbers, cuts, position
        position = batch.position


def read_numbers(directory, **limits):
    return read_all(directory, **limits)[0]
