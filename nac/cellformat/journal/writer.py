"""The journal on disk: append-only segments of records with checksums.

A segment is a file `<20-digit start time in ns>.journal`: a header, then records. A record has the length and the
CRC-32 of its payload (u32 little-endian each), then the payload. The payload is msgpack.

Each writer starts a new segment and locks it while the writer lives. Therefore a segment is final if the segment is not
locked and a newer segment exists. Invalid data at the end of a final segment is an incomplete write.
"""

import errno
import fcntl
import os
import struct
import time
from contextlib import suppress
from pathlib import Path
from typing import Literal
from zlib import crc32

import msgspec

from nac.cellformat.journal.records import JournalRecord
from nac.kit.clock import epoch_microseconds

HEADER = b"ADMITJ1\n"
FRAME = struct.Struct("<II")
SUFFIX = ".journal"
_NAME_DIGITS = 20
# A longer record is damaged, because a RADIUS packet has at most 4,096 bytes.
MAX_RECORD_BYTES = 1 << 20
_SEGMENTS_WITHIN_LIMIT = 8
# Bytes to write before the writer measures the directory again, because the agent may have deleted segments.
_MEASURE_EVERY_BYTES = 4 << 20
_MEASURE_PAUSE_SECONDS = 0.1
_DISK_FULL_ERRNOS = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


class JournalError(Exception):
    """The journal could not store a record."""


class JournalFull(JournalError):
    """The disk is full, or the journal has reached its limit. The record was not stored."""


def list_segments(directory: Path) -> list[str]:
    """Return the names (without suffix) of all segments, oldest first."""
    return sorted(name[:_NAME_DIGITS] for name in os.listdir(directory) if _is_segment(name))


def _is_segment(name: str) -> bool:
    return len(name) == _NAME_DIGITS + len(SUFFIX) and name.endswith(SUFFIX) and name[:_NAME_DIGITS].isdecimal()


def segment_path(directory: Path, segment: str) -> Path:
    return directory / f"{segment}{SUFFIX}"


def journal_bytes(directory: Path) -> int:
    total = 0
    for segment in list_segments(directory):
        with suppress(FileNotFoundError):
            total += segment_path(directory, segment).stat().st_size
    return total


class JournalWriter:
    """Appends records to the journal in a directory.

    Each process needs its own writer. Do not use a writer from several threads.

    The constructor raises no error if the disk is full, because radiusd must start and authenticate even without room
    for its journal.
    """

    def __init__(
        self,
        directory: str | Path,
        *,
        max_bytes: int,
        segment_bytes: int = 64 << 20,
        sync: Literal["interval", "always"] = "interval",
    ) -> None:
        self._directory = Path(directory)
        self._directory.mkdir(parents=True, exist_ok=True)
        self._max_bytes = max_bytes
        # The current segment is never deleted. Several segments must fit into the limit, so that the deletion of old
        # segments makes room.
        self._segment_bytes = min(segment_bytes, max_bytes // _SEGMENTS_WITHIN_LIMIT)
        self._always = sync == "always"
        self._encode = msgspec.msgpack.Encoder().encode
        self._fd = -1
        self._offset = 0
        # Bytes that the writer may append before it measures the directory again.
        self._allowance = 0
        self._measured_at = 0.0
        self._full = False
        with suppress(JournalFull):
            self._start_segment()

    def append(self, record: JournalRecord) -> None:
        """Append a record. If the record is not stored, raises JournalFull (no room) or JournalError (disk failure)."""
        payload = self._encode(record)
        frame = FRAME.pack(len(payload), crc32(payload)) + payload
        size = len(frame)
        if size > MAX_RECORD_BYTES:
            raise JournalError(f"a record of {size} bytes is larger than a RADIUS packet allows")
        if self._offset + size > self._segment_bytes or self._fd < 0:
            self._start_segment()
        if size > self._allowance:
            self._measure(size)
        try:
            written = os.write(self._fd, frame)
        except OSError as exc:
            self._cut_back()
            raise _translate_error(exc) from exc
        if written != size:
            self._cut_back()
            raise JournalFull(f"no room for {size} bytes in {self._directory}")
        self._offset += size
        self._allowance -= size

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _start_segment(self) -> None:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL | (os.O_DSYNC if self._always else 0)
        try:
            path, fd = self._create(flags)
        except OSError as exc:
            raise _translate_error(exc) from exc
        try:
            # While radiusd is replaced, two writers exist. The lock shows the reader that this writer is alive.
            fcntl.flock(fd, fcntl.LOCK_EX)
            if os.write(fd, HEADER) != len(HEADER):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            if self._always:
                sync_directory(self._directory)
        except OSError as exc:
            os.close(fd)
            path.unlink(missing_ok=True)
            raise _translate_error(exc) from exc
        self.close()
        self._fd, self._offset = fd, len(HEADER)
        self._allowance -= len(HEADER)

    def _create(self, flags: int) -> tuple[Path, int]:
        while True:
            path = self._next_path()
            # If the clock was set back, another writer can create a file with the same name.
            with suppress(FileExistsError):
                return path, os.open(path, flags, 0o640)

    def _next_path(self) -> Path:
        """Return an unused path.

        Names must increase even if the clock steps back, because the names define the order of segments.
        """
        existing = list_segments(self._directory)
        start = max(epoch_microseconds() * 1000, int(existing[-1]) + 1 if existing else 0)
        return segment_path(self._directory, f"{start:020d}")

    def _measure(self, size: int) -> None:
        now = time.monotonic()
        # While the journal is full, every request tries to write. Do not read the directory each time.
        if self._full and now - self._measured_at < _MEASURE_PAUSE_SECONDS:
            raise JournalFull(f"{self._directory} has reached its limit of {self._max_bytes} bytes")
        self._measured_at = now
        room = self._max_bytes - journal_bytes(self._directory)
        self._full = room < size
        if self._full:
            raise JournalFull(f"{self._directory} has reached its limit of {self._max_bytes} bytes")
        self._allowance = max(size, min(room, _MEASURE_EVERY_BYTES))

    def _cut_back(self) -> None:
        """Remove an incomplete record. If the removal fails, the next record starts a new segment."""
        try:
            os.ftruncate(self._fd, self._offset)
        except OSError:
            self.close()


def sync_segments(directory: str | Path, synced: dict[str, int] | None = None) -> int:
    """Flush appended data to disk. Return the number of flushed segments.

    `synced` stores the flushed sizes between calls, so that segments without new data are not flushed again.
    """
    directory = Path(directory)
    known = {} if synced is None else synced
    segments = list_segments(directory)
    count = 0
    for segment in segments:
        path = segment_path(directory, segment)
        try:
            if known.get(segment) == path.stat().st_size:
                continue
            if segment not in known:
                sync_directory(directory)
            known[segment] = _sync(path)
        except FileNotFoundError:
            # The agent has shipped and deleted the segment.
            continue
        count += 1
    for segment in known.keys() - set(segments):
        del known[segment]
    return count


def _sync(path: Path) -> int:
    """Flush a file. Return the size of the file before the flush. All data up to this size is then on disk."""
    fd = os.open(path, os.O_RDONLY)
    try:
        size = os.fstat(fd).st_size
        os.fdatasync(fd)
    finally:
        os.close(fd)
    return size


def sync_directory(directory: Path) -> None:
    """Flush a directory. A new file survives a power cut only if its directory entry is on disk."""
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _translate_error(exc: OSError) -> JournalError:
    if exc.errno in _DISK_FULL_ERRNOS:
        return JournalFull(f"no room on the journal's disk: {exc}")
    return JournalError(f"disk failure in the journal: {exc}")
