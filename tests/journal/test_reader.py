import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nac.cellformat.journal.reader import JournalReader, SegmentPosition
from nac.cellformat.journal.segment import HEADER, JournalWriter, list_segments, segment_path
from tests.journal.journal_contents import decode, numbered, read_all, read_numbers
from tests.run_depth import examples

RECORDS = 12
# Each example uses its own files in the test's one temporary folder.
per_example = settings(
    max_examples=examples(150),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@pytest.fixture(scope="module")
def segment_of_records(tmp_path_factory):
    """A segment with RECORDS records: (its bytes, the offsets at which its records end)."""
    directory = tmp_path_factory.mktemp("written")
    writer = JournalWriter(directory, max_bytes=1 << 30)
    path = segment_path(directory, list_segments(directory)[0])
    ends = []
    for number in range(RECORDS):
        writer.append(numbered(number))
        ends.append(path.stat().st_size)
    writer.close()
    return path.read_bytes(), ends


@pytest.fixture
def directory(tmp_path):
    return tmp_path


def write_journal(directory, content, *, newer):
    """Write a journal of one segment with `content`. With `newer`, an empty segment follows."""
    for old in directory.glob("*.journal"):
        old.unlink()
    (directory / f"{1:020d}.journal").write_bytes(content)
    if newer:
        (directory / f"{2:020d}.journal").write_bytes(HEADER)


@per_example
@given(data=st.data(), newer=st.booleans())
def test_truncation_anywhere_keeps_every_earlier_record(data, newer, segment_of_records, directory):
    content, ends = segment_of_records
    length = data.draw(st.integers(0, len(content)))
    write_journal(directory, content[:length], newer=newer)
    whole = [end for end in ends if end <= length]
    payloads, cuts, position = read_all(directory)
    assert [decode(payload).at for payload in payloads] == list(range(len(whole)))
    kept = max([0 if length < len(HEADER) else len(HEADER), *whole])
    if newer:
        assert [(cut.offset, cut.lost_bytes) for cut in cuts] == ([(kept, length - kept)] if length > kept else [])
        assert position.segment == f"{2:020d}"
    else:
        assert cuts == []
        assert position == SegmentPosition(f"{1:020d}", kept)


@per_example
@given(data=st.data(), newer=st.booleans())
def test_changed_byte_never_yields_a_wrong_record(data, newer, segment_of_records, directory):
    content, ends = segment_of_records
    at = data.draw(st.integers(0, len(content) - 1))
    changed = bytearray(content)
    changed[at] ^= data.draw(st.integers(1, 255))
    write_journal(directory, bytes(changed), newer=newer)
    numbers = read_numbers(directory)
    before = len([end for end in ends if end <= at]) if at >= len(HEADER) else 0
    assert numbers == list(range(before))


@per_example
@given(max_records=st.integers(1, RECORDS + 1), max_bytes=st.integers(1, 2_000))
def test_batch_limits_change_only_the_batch_size(max_records, max_bytes, segment_of_records, directory):
    content, _ = segment_of_records
    write_journal(directory, content, newer=True)
    assert read_numbers(directory, max_records=max_records, max_bytes=max_bytes) == list(range(RECORDS))


def test_zeroes_after_a_power_cut_are_no_records(directory, segment_of_records):
    content, _ = segment_of_records
    write_journal(directory, content + bytes(4_096), newer=True)
    payloads, cuts, _ = read_all(directory)
    assert len(payloads) == RECORDS
    assert [cut.lost_bytes for cut in cuts] == [4_096]


def test_damage_in_the_newest_segment_waits_and_is_logged(directory, segment_of_records):
    content, ends = segment_of_records
    changed = bytearray(content)
    changed[ends[4] + 12] ^= 0xFF
    write_journal(directory, bytes(changed), newer=False)
    batch = JournalReader(directory).read_batch(SegmentPosition())
    assert batch.damaged
    assert len(batch.payloads) == 5
    assert batch.cuts == []


def test_segment_of_a_living_writer_is_not_final(directory):
    """During a replacement of radiusd, the old process still writes for a moment."""
    old = JournalWriter(directory, max_bytes=1 << 30)
    old.append(numbered(1))
    new = JournalWriter(directory, max_bytes=1 << 30)
    new.append(numbered(3))
    assert JournalReader(directory).read_batch(SegmentPosition()).held
    payloads, _, position = read_all(directory)
    assert [decode(payload).at for payload in payloads] == [1]
    old.append(numbered(2))
    old.close()
    payloads, cuts, _ = read_all(directory, position)
    assert [decode(payload).at for payload in payloads] == [2, 3]
    assert cuts == []
    new.close()


def test_incomplete_record_is_read_once_complete(directory, segment_of_records):
    content, ends = segment_of_records
    write_journal(directory, content[: ends[3] + 5], newer=False)
    reader = JournalReader(directory)
    first = reader.read_batch(SegmentPosition())
    assert len(first.payloads) == 4
    assert not first.damaged
    write_journal(directory, content, newer=False)
    reader = JournalReader(directory)
    assert len(reader.read_batch(first.position).payloads) == RECORDS - 4


def test_delete_keeps_the_current_and_newest_segments(directory):
    for number in range(4):
        writer = JournalWriter(directory, max_bytes=1 << 30)
        writer.append(numbered(number))
        writer.close()
    names = list_segments(directory)
    reader = JournalReader(directory)
    reader.delete_before(SegmentPosition(names[2], 8))
    assert list_segments(directory) == names[2:]
    reader.delete_before(SegmentPosition(f"{9:020d}", 0))
    assert list_segments(directory) == names[2:]
    reader.delete_before(SegmentPosition("99999999999999999999", 0))
    assert list_segments(directory) == names[3:]


def test_backlog_counts_bytes_after_the_position(directory):
    writer = JournalWriter(directory, max_bytes=1 << 30)
    for number in range(20):
        writer.append(numbered(number))
    reader = JournalReader(directory)
    size = segment_path(directory, list_segments(directory)[0]).stat().st_size
    assert reader.backlog_bytes(SegmentPosition()) == size - len(HEADER)
    assert reader.backlog_bytes(reader.read_batch(SegmentPosition()).position) == 0
    writer.close()


def test_position_beyond_a_truncated_segment_continues(directory, segment_of_records):
    """A power failure may remove bytes that were shipped but not yet synchronized to disk."""
    content, ends = segment_of_records
    write_journal(directory, content[: ends[2]], newer=True)
    batch = JournalReader(directory).read_batch(SegmentPosition(f"{1:020d}", ends[5]))
    assert batch.payloads == []
    assert batch.cuts == []
    assert batch.position.segment == f"{2:020d}"
