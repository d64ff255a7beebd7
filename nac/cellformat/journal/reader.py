"""Reads batches of records from a position in the journal, for the agent, and skips damaged data."""

import fcntl
import os
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from zlib import crc32

from nac.cellformat.journal.segment import FRAME, HEADER, MAX_RECORD_BYTES, list_segments, segment_path


@dataclass(frozen=True, slots=True)
class SegmentPosition:
    """Position of the next record to read. The segment "" stands for the position before the first segment."""

    segment: str = ""
    offset: int = 0


@dataclass(frozen=True, slots=True)
class DamagedTail:
    """Bytes at the end of a segment that are not records: an incomplete write, or damage."""

    segment: str
    offset: int
    lost_bytes: int


@dataclass(slots=True)
class RecordBatch:
    # Each payload is one record as msgpack.
    payloads: list[memoryview] = field(default_factory=list)
    # Position after the last record of the batch.
    position: SegmentPosition = field(default_factory=SegmentPosition)
    cuts: list[DamagedTail] = field(default_factory=list)
    # Whether the current segment has damage at `position`. The reader skips the damage after the segment's writer has
    # ended.
    damaged: bool = False
    # Whether later segments exist but are not read yet, because the writer of the current segment is still alive.
    held: bool = False
    # Whether a limit ended the batch, so that more records can follow.
    more: bool = False


@dataclass(frozen=True, slots=True)
class _SegmentRead:
    end: int
    damaged: bool = False
    # Whether a limit of the batch was reached, so that more records can follow.
    limited: bool = False


class JournalReader:
    def __init__(self, directory: str | Path) -> None:
        self._directory = Path(directory)
        self._directory.mkdir(parents=True, exist_ok=True)
        self._open_segment = ""
        self._fd = -1

    def read_batch(
        self, position: SegmentPosition, *, max_records: int = 5_000, max_bytes: int = 4 << 20
    ) -> RecordBatch:
        """Return the next records within the limits, but at least one record if a record exists.

        A batch can contain records of several segments.
        """
        batch = RecordBatch(position=position)
        budget = max_bytes
        while self._open_next_segment(batch):
            if len(batch.payloads) >= max_records or budget <= 0:
                batch.more = True
                break
            # Check this before reading: a segment is complete once its writer has ended.
            followed = self._is_followed(batch.position.segment)
            final = followed and not self._has_writer()
            start = batch.position.offset
            read = self._read(batch, start, max_records, budget)
            batch.position = SegmentPosition(batch.position.segment, read.end)
            budget -= read.end - start
            if read.limited:
                batch.more = True
                break
            if not final:
                batch.damaged, batch.held = read.damaged, followed
                break
            self._finish_segment(batch)
        return batch

    def delete_before(self, position: SegmentPosition) -> None:
        """Delete segments before `position`.

        The newest segment stays, because the name of the next segment must be greater than its name.
        """
        for segment in list_segments(self._directory)[:-1]:
            if segment < position.segment:
                segment_path(self._directory, segment).unlink(missing_ok=True)

    def backlog_bytes(self, position: SegmentPosition) -> int:
        total = 0
        for segment in list_segments(self._directory):
            if segment < position.segment:
                continue
            with suppress(FileNotFoundError):
                size = segment_path(self._directory, segment).stat().st_size
                done = position.offset if segment == position.segment else len(HEADER)
                total += max(0, size - max(done, len(HEADER)))
        return total

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
        self._fd, self._open_segment = -1, ""

    def _open_next_segment(self, batch: RecordBatch) -> bool:
        """Open the segment of the batch's position.

        If this segment does not exist, open the next segment. Return False if no segment is left.
        """
        position = batch.position
        if position.segment and position.segment == self._open_segment:
            return True
        for segment in list_segments(self._directory):
            if segment >= position.segment:
                self.close()
                self._fd = os.open(segment_path(self._directory, segment), os.O_RDONLY)
                self._open_segment = segment
                if segment != position.segment:
                    batch.position = SegmentPosition(segment, 0)
                return True
        return False

    def _is_followed(self, segment: str) -> bool:
        return any(name > segment for name in list_segments(self._directory))

    def _has_writer(self) -> bool:
        """Return whether the process that writes the open segment is alive."""
        try:
            fcntl.flock(self._fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        fcntl.flock(self._fd, fcntl.LOCK_UN)
        return False

    def _read(self, batch: RecordBatch, start: int, max_records: int, max_bytes: int) -> _SegmentRead:
        if start < len(HEADER):
            header = os.pread(self._fd, len(HEADER), 0)
            if header != HEADER:
                return _SegmentRead(0, damaged=len(header) == len(HEADER))
            start = len(HEADER)
        size = max_bytes
        while True:
            chunk = os.pread(self._fd, size, start)
            read = _parse(chunk, start, batch.payloads, max_records, full=len(chunk) == size)
            if read.end > start or not read.limited or size > MAX_RECORD_BYTES:
                return read
            # The record is larger than the limit of the batch.
            size = MAX_RECORD_BYTES + FRAME.size

    def _finish_segment(self, batch: RecordBatch) -> None:
        segment, offset = batch.position.segment, batch.position.offset
        lost = os.fstat(self._fd).st_size - offset
        if lost > 0:
            batch.cuts.append(DamagedTail(segment, offset, lost))
        following = [name for name in list_segments(self._directory) if name > segment]
        batch.position = SegmentPosition(following[0], 0)


def read_tail(directory: Path, *, max_bytes: int) -> list[bytes]:
    """Return the payloads in the last `max_bytes` of each of the two newest segments, in order.

    Payloads after damage in a segment are missing.
    """
    payloads: list[bytes] = []
    for segment in list_segments(directory)[-2:] if directory.exists() else ():
        with suppress(FileNotFoundError):
            content = segment_path(directory, segment).read_bytes()
            payloads += _last_payloads(content, max(0, len(content) - max_bytes))
    return payloads


def _last_payloads(content: bytes, start: int) -> list[bytes]:
    """Return the payloads of the records that begin at the offset `start` or later.

    The function reads all earlier frames, because each record begins where the previous record ends.
    """
    found, at = [], len(HEADER)
    while at + FRAME.size <= len(content):
        length, checksum = FRAME.unpack_from(content, at)
        end = at + FRAME.size + length
        if length == 0 or end > len(content):
            break
        if at >= start:
            payload = content[at + FRAME.size : end]
            if crc32(payload) != checksum:
                break
            found.append(payload)
        at = end
    return found


def _parse(chunk: bytes, start: int, payloads: list[memoryview], max_records: int, *, full: bool) -> _SegmentRead:
    view = memoryview(chunk)
    unpack, frame, size = FRAME.unpack_from, FRAME.size, len(chunk)
    at = 0
    room = max_records - len(payloads)
    append = payloads.append
    while room > 0:
        if at + frame > size:
            return _SegmentRead(start + at, limited=full)
        length, checksum = unpack(chunk, at)
        end = at + frame + length
        # A length of 0 is damage: zeros after a power cut would pass the checksum.
        if length == 0 or length > MAX_RECORD_BYTES:
            return _SegmentRead(start + at, damaged=True)
        if end > size:
            return _SegmentRead(start + at, limited=full)
        payload = view[at + frame : end]
        if crc32(payload) != checksum:
            return _SegmentRead(start + at, damaged=True)
        append(payload)
        at = end
        room -= 1
    return _SegmentRead(start + at, limited=True)
