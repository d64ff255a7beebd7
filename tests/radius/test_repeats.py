"""Retransmitted accounting records. A new radiusd reads recent records of the previous radiusd."""

from zlib import crc32

import pytest

from nac.cellformat.journal.reader import read_tail
from nac.cellformat.journal.records import AccountingRecord
from nac.cellformat.journal.writer import FRAME, HEADER, JournalWriter, list_segments, segment_path
from radius.module.acct import WINDOW_MICROSECONDS, RecentRecords, read_predecessor_records, repeat_keys

AT = 1_900_000_000_000_000
SECOND = 1_000_000
_SAID = {"Acct-Status-Type": "Interim-Update", "Acct-Session-Id": "s1", "Acct-Session-Time": "60"}


def record(session="s1", *, at=AT, tenant="alpha", nas="192.0.2.7", **changed):
    said = _SAID | {"Acct-Session-Id": session} | {name.replace("_", "-"): value for name, value in changed.items()}
    return AccountingRecord(at, 0, tenant, "", "", nas, tuple(said.items()))


def is_repeat(repeats, record):
    return any(key in repeats for key in repeat_keys(record))


@pytest.mark.parametrize(
    "changed",
    [
        {},
        {"Acct_Delay_Time": "5"},
        {"Acct_Delay_Time": "59", "at": AT + 59 * SECOND},
        {"Acct_Delay_Time": "٣x"},
        {"Message_Authenticator": "0x00"},
        {"at": AT + 9},
        {"at": AT + 59 * SECOND},
    ],
)
def test_equal_record_is_a_repeat(changed):
    assert is_repeat(RecentRecords([record()]), record(**changed))


@pytest.mark.parametrize(
    "changed",
    [
        {"tenant": "bravo"},
        {"nas": "192.0.2.8"},
        {"Acct_Session_Time": "61"},
        {"Acct_Status_Type": "Stop"},
        {"session": "s2"},
        {"Class": "x"},
        # The event happened at another time. After an outage, a NAS reports its first restart and then its second
        # restart.
        {"Acct_Delay_Time": "120"},
        {"Acct_Delay_Time": "4294967295"},
    ],
)
def test_different_record_is_no_repeat(changed):
    assert not is_repeat(RecentRecords([record()]), record(**changed))


def test_repeat_is_detected_within_the_window():
    repeats = RecentRecords([record()])
    for seconds in (29, 31, 59):
        repeats.add(seconds, AT + seconds * SECOND)
        assert is_repeat(repeats, record())
    repeats.add(61, AT + 2 * WINDOW_MICROSECONDS + SECOND)
    assert not is_repeat(repeats, record())
    assert 59 in repeats
    # A quiet hour clears everything.
    repeats.add(1, AT + 3_600 * SECOND)
    assert 61 not in repeats


def test_flood_evicts_the_oldest_first():
    repeats = RecentRecords(max_keys=10)
    for number in range(25):
        repeats.add(number, AT)
    assert [number for number in range(25) if number in repeats] == list(range(10, 25))


def written_journal(directory, *records, segment_bytes=1 << 20):
    writer = JournalWriter(directory, max_bytes=1 << 30, segment_bytes=segment_bytes)
    for each in records:
        writer.append(each)
    writer.close()


def test_new_radiusd_knows_recent_records(tmp_path):
    lately = record("new")
    assert read_predecessor_records(tmp_path / "none", now=AT) == []
    written_journal(tmp_path)
    assert read_predecessor_records(tmp_path, now=AT) == []
    written_journal(tmp_path, record("old", at=AT - WINDOW_MICROSECONDS), lately)
    assert read_predecessor_records(tmp_path, now=AT) == [lately]


def test_last_records_are_read_across_segments(tmp_path):
    records = [record(f"{number}") for number in range(10)]
    written_journal(tmp_path, *records, segment_bytes=400)
    assert len(list_segments(tmp_path)) > 2
    found = read_predecessor_records(tmp_path, now=AT)
    assert len(found) > 3
    assert found == records[-len(found) :]


def test_only_the_end_of_a_long_segment_is_read(tmp_path):
    written_journal(tmp_path, *(record(f"{number:03}") for number in range(100)))
    whole = read_tail(tmp_path, max_bytes=1 << 20)
    assert len(whole) == 100
    assert read_tail(tmp_path, max_bytes=1000) == whole[-(1000 // (len(whole[-1]) + FRAME.size)) :]


UNKNOWN = b"\x93\xa7unknown\x01\x02"


@pytest.mark.parametrize(
    "end",
    [
        *(b"", HEADER[:3], b"\xff" * 40, bytes(40), FRAME.pack(5, 1) + b"wrong"),
        FRAME.pack(len(UNKNOWN), crc32(UNKNOWN)) + UNKNOWN,
    ],
)
def test_damaged_or_unknown_end_hides_no_earlier_records(tmp_path, end):
    written_journal(tmp_path, record())
    with segment_path(tmp_path, list_segments(tmp_path)[-1]).open("ab") as file:
        file.write(end)
    assert read_predecessor_records(tmp_path, now=AT) == [record()]
