import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nac.cellformat.journal.reader import JournalReader, SegmentPosition
from nac.cellformat.journal.writer import HEADER, JournalWriter, list_segments, segment_path
from tests.journal.journal_contents import append, read_all, read_numbers
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
        append(writer, number)
        ends.append(path.stat().st_size)
    writer.close()
    return path.read_bytes(), ends


def write_journal(directory, content, *, newer):
    """Write a journal of one segment with `content`. With `newer`, an empty segment follows."""
    for old in directory.glob("*.journal"):
        old.unlink()
    (directory / f"{1:020d}.journal").write_bytes(content)
    if newer:
        (directory / f"{2:020d}.journal").write_bytes(HEADER)


@per_example
@given(data=st.data(), newer=st.booleans())
def test_truncation_anywhere_keeps_every_earlier_record(data, newer, segment_of_records, tmp_path):
    content, ends = segment_of_records
    length = data.draw(st.integers(0, len(content)))
    write_journal(tmp_path, content[:length], newer=newer)
    whole = [end for end in ends if end <= length]
    assert not JournalReader(tmp_path).read_batch(SegmentPosition()).damaged
    numbers, cuts, position = read_all(tmp_path)
    assert numbers == list(range(len(whole)))
    kept = max([0 if length < len(HEADER) else len(HEADER), *whole])
    if newer:
        assert [(cut.offset, cut.lost_bytes) for cut in cuts] == ([(kept, length - kept)] if length > kept else [])
        assert position.segment == f"{2:020d}"
        return
    assert (cuts, position) == ([], SegmentPosition(f"{1:020d}", kept))
    # The writer was in the middle of a record. The record is read when it is complete.
    write_journal(tmp_path, content, newer=False)
    assert read_all(tmp_path, position)[0] == list(range(len(whole), RECORDS))


@per_example
@given(data=st.data(), newer=st.booleans())
def test_changed_byte_never_yields_a_wrong_record(data, newer, segment_of_records, tmp_path):
    content, ends = segment_of_records
    at = data.draw(st.integers(0, len(content) - 1))
    changed = bytearray(content)
    changed[at] ^= data.draw(st.integers(1, 255))
    write_journal(tmp_path, bytes(changed), newer=newer)
    before = len([end for end in ends if end <= at]) if at >= len(HEADER) else 0
    assert read_numbers(tmp_path) == list(range(before))


@per_example
@given(max_records=st.integers(1, RECORDS + 1), max_bytes=st.integers(1, 2_000))
def test_batch_limits_change_only_the_batch_size(max_records, max_bytes, segment_of_records, tmp_path):
    write_journal(tmp_path, segment_of_records[0], newer=True)
    assert read_numbers(tmp_path, max_records=max_records, max_bytes=max_bytes) == list(range(RECORDS))


def test_zeroes_after_a_power_cut_are_no_records(segment_of_records, tmp_path):
    write_journal(tmp_path, segment_of_records[0] + bytes(4_096), newer=True)
    numbers, cuts, _ = read_all(tmp_path)
    assert (len(numbers), [cut.lost_bytes for cut in cuts]) == (RECORDS, [4_096])


def test_damage_in_the_newest_segment_waits_and_is_logged(segment_of_records, tmp_path):
    content, ends = segment_of_records
    changed = bytearray(content)
    changed[ends[4] + 12] ^= 0xFF
    write_journal(tmp_path, bytes(changed), newer=False)
    batch = JournalReader(tmp_path).read_batch(SegmentPosition())
    assert (batch.damaged, len(batch.payloads), batch.cuts) == (True, 5, [])


def test_segment_of_a_living_writer_is_not_final(tmp_path):
    """During a replacement of radiusd, the old process still writes for a moment."""
    old = JournalWriter(tmp_path, max_bytes=1 << 30)
    append(old, 1)
    new = JournalWriter(tmp_path, max_bytes=1 << 30)
    append(new, 3)
    assert JournalReader(tmp_path).read_batch(SegmentPosition()).held
    numbers, _, position = read_all(tmp_path)
    assert numbers == [1]
    append(old, 2)
    old.close()
    assert read_all(tmp_path, position)[:2] == ([2, 3], [])
    new.close()


def test_delete_keeps_the_current_and_newest_segments(tmp_path):
    for number in range(4):
        writer = JournalWriter(tmp_path, max_bytes=1 << 30)
        append(writer, number)
        writer.close()
    names = list_segments(tmp_path)
    reader = JournalReader(tmp_path)
    for segment, offset, kept in ((names[2], 8, names[2:]), (f"{9:020d}", 0, names[2:]), ("9" * 20, 0, names[3:])):
        reader.delete_before(SegmentPosition(segment, offset))
        assert list_segments(tmp_path) == kept


def test_backlog_counts_bytes_after_the_position(segment_of_records, tmp_path):
    content, _ = segment_of_records
    write_journal(tmp_path, content, newer=False)
    reader = JournalReader(tmp_path)
    assert reader.backlog_bytes(SegmentPosition()) == len(content) - len(HEADER)
    assert reader.backlog_bytes(reader.read_batch(SegmentPosition()).position) == 0


def test_position_beyond_a_truncated_segment_continues(segment_of_records, tmp_path):
    """A power failure may remove bytes that were shipped but not yet synchronized to disk."""
    content, ends = segment_of_records
    write_journal(tmp_path, content[: ends[2]], newer=True)
    batch = JournalReader(tmp_path).read_batch(SegmentPosition(f"{1:020d}", ends[5]))
    assert (batch.payloads, batch.cuts, batch.position.segment) == ([], [], f"{2:020d}")
