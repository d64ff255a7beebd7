import os
import resource
import signal
import subprocess
import sys
from contextlib import contextmanager

import pytest

from nac.cellformat.journal.reader import JournalReader, SegmentPosition
from nac.cellformat.journal.records import AccountingRecord
from nac.cellformat.journal.writer import (
    HEADER,
    JournalError,
    JournalFull,
    JournalWriter,
    journal_bytes,
    list_segments,
    segment_path,
    sync_segments,
)
from tests.journal.journal_contents import append, read_numbers
from tests.replica.reader_process import ROOT


@pytest.fixture
def directory(tmp_path):
    return tmp_path / "journal"


@pytest.fixture
def start(directory):
    """Start a writer of the journal. Every writer is closed at the end of the test."""
    writers = []

    def start(*, max_bytes=1 << 30, **options):
        writers.append(JournalWriter(directory, max_bytes=max_bytes, **options))
        return writers[-1]

    yield start
    for writer in writers:
        writer.close()


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


def test_each_start_opens_a_new_segment_with_a_header(directory, start):
    start().close()
    (first,) = list_segments(directory)
    assert segment_path(directory, first).read_bytes() == HEADER
    assert os.listdir(directory) == [f"{first}.journal"]
    for number in range(3):
        writer = start()
        append(writer, number)
        writer.close()
    assert len(list_segments(directory)) == 4
    assert read_numbers(directory) == [0, 1, 2]


def test_full_segment_is_followed_by_the_next(directory, start):
    append(start(segment_bytes=500), *range(50))
    assert len(list_segments(directory)) > 3
    assert all(segment_path(directory, name).stat().st_size <= 500 for name in list_segments(directory))
    assert read_numbers(directory) == list(range(50))


def test_backward_clock_still_names_segments_in_order(directory, start, monkeypatch):
    start().close()
    monkeypatch.setattr("nac.cellformat.journal.writer.epoch_microseconds", lambda: 1_000)
    append(start(), 7)
    assert read_numbers(directory) == [7]


def test_full_journal_rejects_until_space_is_free(directory, start, monkeypatch):
    now = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    writer = start(max_bytes=5_000, segment_bytes=1_000)
    with pytest.raises(JournalFull):
        append(writer, *range(1_000))
    assert journal_bytes(directory) <= 5_000
    written = len(read_numbers(directory))
    assert 10 < written < 100
    reader = JournalReader(directory)
    reader.delete_before(reader.read_batch(SegmentPosition()).position)
    now[0] += 1
    append(writer, written)
    assert read_numbers(directory)[-1] == written
    reader.close()


def test_short_write_is_undone_and_the_next_record_is_whole(directory, start):
    writer = start()
    append(writer, 1)
    size = journal_bytes(directory)
    with file_size_limit(size + 10), pytest.raises(JournalFull):
        append(writer, 2)
    assert journal_bytes(directory) == size
    append(writer, 3)
    assert read_numbers(directory) == [1, 3]


def test_writer_starts_on_a_full_disk_and_recovers(directory, start):
    with file_size_limit(4):
        writer = start()
        with pytest.raises(JournalFull):
            append(writer, 1)
        assert list_segments(directory) == []
    append(writer, 2)
    assert read_numbers(directory) == [2]


def test_record_larger_than_any_packet_is_rejected(start):
    huge = AccountingRecord(1, 1, "t", "", "", "", (("Reply-Message", "x" * (1 << 20)),))
    with pytest.raises(JournalError, match="larger"):
        start().append(huge)


def test_sync_reaches_only_segments_that_grew(directory, start):
    synced = {}
    writers = [start(sync="always"), *(start() for _ in range(3))]
    assert [sync_segments(directory, synced) for _ in range(2)] == [4, 0]
    append(writers[0], 1)
    assert [sync_segments(directory, synced) for _ in range(2)] == [1, 0]
    for writer in writers:
        writer.close()
    segment_path(directory, list_segments(directory)[1]).unlink()
    assert sync_segments(directory, synced) == 0
    assert len(synced) == 3


def run_python(script, directory, **options):
    return subprocess.Popen([sys.executable, "-c", script, str(directory)], cwd=ROOT, **options)


_APPENDS_UNTIL_KILLED = """
import itertools, sys
from nac.cellformat.journal.writer import JournalWriter
from tests.journal.journal_contents import append
writer = JournalWriter(sys.argv[1], max_bytes=1 << 30)
for number in itertools.count():
    append(writer, number)
    print(number, flush=True)
"""


def test_killed_writer_leaves_every_acknowledged_record(directory):
    process = run_python(_APPENDS_UNTIL_KILLED, directory, stdout=subprocess.PIPE, text=True)
    for _ in range(200):
        assert process.stdout.readline()
    process.kill()
    acknowledged = 200 + len(process.communicate()[0].split())
    numbers = read_numbers(directory)
    assert numbers == list(range(len(numbers)))
    assert len(numbers) >= acknowledged


_STARTS_WRITERS = """
import sys
from nac.cellformat.journal.writer import JournalWriter
for _ in range(100):
    JournalWriter(sys.argv[1], max_bytes=1 << 30).close()
"""


def test_two_writers_after_a_clock_reset_use_different_names(directory, start):
    """The newest segment has a date in the future, so each writer tries the next name."""
    start().close()
    (newest,) = list_segments(directory)
    segment_path(directory, newest).rename(segment_path(directory, f"{10**19:020d}"))
    writers = [run_python(_STARTS_WRITERS, directory) for _ in range(4)]
    assert [writer.wait() for writer in writers] == [0] * 4
    assert len(list_segments(directory)) == 401
