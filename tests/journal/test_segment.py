import os
import resource
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

from nac.cellformat.journal.reader import JournalReader, SegmentPosition
from nac.cellformat.journal.records import AccountingRecord
from nac.cellformat.journal.segment import (
    HEADER,
    JournalError,
    JournalFull,
    JournalWriter,
    journal_bytes,
    list_segments,
    segment_path,
    sync_segments,
)
from tests.journal.journal_contents import numbered, read_numbers


@pytest.fixture
def directory(tmp_path):
    return tmp_path / "journal"


@contextmanager
def file_size_limit(limit):
    """Limit the file size. At the limit the kernel writes a part, then fails (EFBIG) as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, handler)


def fill(writer):
    """Append until the journal rejects a record. Returns the number of accepted records."""
    for number in range(1_000):
        try:
            writer.append(numbered(number))
        except JournalFull:
            return number
    raise AssertionError("the journal never was full")


def test_appended_records_are_read_in_order(directory):
    writer = JournalWriter(directory, max_bytes=1 << 30)
    for number in range(100):
        writer.append(numbered(number))
    assert read_numbers(directory) == list(range(100))
    writer.close()


def test_each_start_opens_a_new_segment(directory):
    for number in range(3):
        writer = JournalWriter(directory, max_bytes=1 << 30)
        writer.append(numbered(number))
        writer.close()
    assert len(list_segments(directory)) == 3
    assert read_numbers(directory) == [0, 1, 2]


def test_full_segment_is_followed_by_the_next(directory):
    writer = JournalWriter(directory, max_bytes=1 << 30, segment_bytes=500)
    for number in range(50):
        writer.append(numbered(number))
    assert len(list_segments(directory)) > 3
    assert all(segment_path(directory, name).stat().st_size <= 500 for name in list_segments(directory))
    assert read_numbers(directory) == list(range(50))
    writer.close()


def test_backward_clock_still_names_segments_in_order(directory, monkeypatch):
    JournalWriter(directory, max_bytes=1 << 30).close()
    monkeypatch.setattr("nac.cellformat.journal.segment.epoch_microseconds", lambda: 1_000)
    writer = JournalWriter(directory, max_bytes=1 << 30)
    writer.append(numbered(7))
    assert read_numbers(directory) == [7]
    writer.close()


def test_full_journal_rejects_until_space_is_free(directory, monkeypatch):
    now = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    writer = JournalWriter(directory, max_bytes=5_000, segment_bytes=1_000)
    written = fill(writer)
    assert 10 < written < 100
    assert journal_bytes(directory) <= 5_000
    reader = JournalReader(directory)
    reader.delete_before(reader.read_batch(SegmentPosition()).position)
    now[0] += 1
    writer.append(numbered(written))
    assert read_numbers(directory)[-1] == written
    writer.close()
    reader.close()


def test_short_write_is_undone_and_the_next_record_is_whole(directory):
    writer = JournalWriter(directory, max_bytes=1 << 30)
    writer.append(numbered(1))
    size = journal_bytes(directory)
    with file_size_limit(size + 10), pytest.raises(JournalFull):
        writer.append(numbered(2))
    assert journal_bytes(directory) == size
    writer.append(numbered(3))
    assert read_numbers(directory) == [1, 3]
    writer.close()


def test_writer_starts_on_a_full_disk_and_recovers(directory):
    with file_size_limit(4):
        writer = JournalWriter(directory, max_bytes=1 << 30)
        with pytest.raises(JournalFull):
            writer.append(numbered(1))
        assert list_segments(directory) == []
    writer.append(numbered(2))
    assert read_numbers(directory) == [2]
    writer.close()


def test_record_larger_than_any_packet_is_rejected(directory):
    writer = JournalWriter(directory, max_bytes=1 << 30)
    huge = AccountingRecord(1, 1, "t", "", "", "", (("Reply-Message", "x" * (1 << 20)),))
    with pytest.raises(JournalError, match="larger"):
        writer.append(huge)
    writer.close()


def test_sync_skips_unchanged_segments(directory):
    writer = JournalWriter(directory, max_bytes=1 << 30, sync="always")
    synced = {}
    assert sync_segments(directory, synced) == 1
    assert sync_segments(directory, synced) == 0
    writer.append(numbered(1))
    assert sync_segments(directory, synced) == 1
    writer.close()


def test_sync_reaches_every_segment_that_grew(directory):
    synced = {}
    first = JournalWriter(directory, max_bytes=1 << 30)
    others = [JournalWriter(directory, max_bytes=1 << 30) for _ in range(3)]
    assert sync_segments(directory, synced) == 4
    first.append(numbered(1))
    assert sync_segments(directory, synced) == 1
    for writer in (first, *others):
        writer.close()
    segment_path(directory, list_segments(directory)[1]).unlink()
    assert sync_segments(directory, synced) == 0
    assert len(synced) == 3


def test_killed_writer_leaves_every_acknowledged_record(directory):
    script = (
        "import sys\n"
        "from nac.cellformat.journal.segment import JournalWriter\n"
        "from tests.journal.journal_contents import numbered\n"
        "writer = JournalWriter(sys.argv[1], max_bytes=1 << 30)\n"
        "number = 0\n"
        "while True:\n"
        "    writer.append(numbered(number))\n"
        "    print(number, flush=True)\n"
        "    number += 1\n"
    )
    root = Path(__file__).resolve().parents[2]
    process = subprocess.Popen(
        [sys.executable, "-c", script, str(directory)], stdout=subprocess.PIPE, text=True, cwd=root
    )
    acknowledged = [int(process.stdout.readline()) for _ in range(200)][-1]
    process.send_signal(signal.SIGKILL)
    acknowledged = max([acknowledged, *(int(line) for line in process.stdout.read().split())])
    process.wait()
    process.stdout.close()
    numbers = read_numbers(directory)
    assert numbers == list(range(len(numbers)))
    assert len(numbers) > acknowledged


def test_fresh_segment_contains_only_the_header(directory):
    JournalWriter(directory, max_bytes=1 << 30).close()
    assert segment_path(directory, list_segments(directory)[0]).read_bytes() == HEADER
    assert os.listdir(directory) == [f"{list_segments(directory)[0]}.journal"]


def test_two_writers_after_a_clock_reset_use_different_names(directory):
    """The newest segment has a date in the future, so each writer tries the next name."""
    JournalWriter(directory, max_bytes=1 << 30).close()
    (newest,) = list_segments(directory)
    segment_path(directory, newest).rename(segment_path(directory, f"{10**19:020d}"))
    make = (
        "import sys\n"
        "from nac.cellformat.journal.segment import JournalWriter\n"
        "for _ in range(100):\n"
        "    JournalWriter(sys.argv[1], max_bytes=1 << 30).close()\n"
    )
    root = Path(__file__).resolve().parents[2]
    writers = [subprocess.Popen([sys.executable, "-c", make, str(directory)], cwd=root) for _ in range(4)]
    assert [writer.wait() for writer in writers] == [0] * 4
    assert len(list_segments(directory)) == 401
