"""The journal on disk: segments of checksummed records that only ever grow at their end.

A segment is `<20-digit start time ns>.journal`: the header, then records of u32 length, u32 CRC-32 of the payload, and
payload (msgpack of one record), little-endian. A writer starts a new segment when it starts and holds a lock on it
while it lives, so a segment that is neither the newest nor locked is final: what does not verify at its end is a torn
write.
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

from nac.clock import epoch_microseconds
from nac.journal.records import JournalRecord

HEADER = b"ADMITJ1\n"
FRAME = struct.Struct("<II")
SUFFIX = ".journal"
_NAME_DIGITS = 20
# A RADIUS packet holds 4,096 bytes; a length beyond this is damage, not a record.
MAX_RECORD_BYTES = 1 << 20
_SEGMENTS_WITHIN_LIMIT = 8
# How many bytes go out between two looks at what the agent has deleted meanwhile.
_MEASURE_EVERY_BYTES = 4 << 20
_MEASURE_PAUSE_SECONDS = 0.1
_DISK_FULL_ERRNOS = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


class JournalError(Exception):
    """The journal could not take a record."""


class JournalFull(JournalError):
    """The disk or the journal's own limit is reached; the record is not in the journal."""


def list_segments(directory: Path) -> list[str]:
    """Names (without suffix) of all segments, oldest first."""
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
    """Appends records of one stream; one writer per directory and process, not to be shared by threads.

    A full disk never raises here: radiusd must start and authenticate without room for its journal.
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
        # The segment in use is never deleted: several must fit the limit, or what was shipped would make no room.
        self._segment_bytes = min(segment_bytes, max_bytes // _SEGMENTS_WITHIN_LIMIT)
        self._always = sync == "always"
        self._encode = msgspec.msgpack.Encoder().encode
        self._fd = -1
        self._offset = 0
        # Bytes that may be written before the segments are measured again.
        self._allowance = 0
        self._measured_at = 0.0
        self._full = False
        with suppress(JournalFull):
            self._start_segment()

    def append(self, record: JournalRecord) -> None:
        """Raises JournalFull (no room) or JournalError (the disk fails); the record then is not in the journal."""
        payload = self._encode(record)
        frame = FRAME.pack(len(payload), crc32(payload)) + payload
        size = len(frame)
        if size > MAX_RECORD_BYTES:
            raise JournalError(f"a record of {size} bytes is larger than any RADIUS packet makes")
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
            # Two writers at once happen while radiusd is swapped: the lock tells the reader that this one lives.
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
            # Another writer may take the same name where the clock was set back.
            with suppress(FileExistsError):
                return path, os.open(path, flags, 0o640)

    def _next_path(self) -> Path:
        """Names must grow even where the clock steps back: their order is the order of the records."""
        existing = list_segments(self._directory)
        start = max(epoch_microseconds() * 1000, int(existing[-1]) + 1 if existing else 0)
        return segment_path(self._directory, f"{start:020d}")

    def _measure(self, size: int) -> None:
        now = time.monotonic()
        # A full journal is asked again and again; the directory is not read for each of those.
        if self._full and now - self._measured_at < _MEASURE_PAUSE_SECONDS:
            raise JournalFull(f"{self._directory} holds its limit of {self._max_bytes} bytes")
        self._measured_at = now
        room = self._max_bytes - journal_bytes(self._directory)
        self._full = room < size
        if self._full:
            raise JournalFull(f"{self._directory} holds its limit of {self._max_bytes} bytes")
        self._allowance = max(size, min(room, _MEASURE_EVERY_BYTES))

    def _cut_back(self) -> None:
        """Take the torn record off again; where even that fails, the next record opens a segment of its own."""
        try:
            os.ftruncate(self._fd, self._offset)
        except OSError:
            self.close()


def sync_segments(directory: str | Path, synced: dict[str, int] | None = None) -> int:
    """Bring to disk what writers appended; returns the number of segments synced.

    `synced` remembers sizes between calls, so that an idle journal costs no flush.
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
            # Shipped and deleted meanwhile.
            continue
        count += 1
    for segment in known.keys() - set(segments):
        del known[segment]
    return count


def _sync(path: Path) -> int:
    """Returns the size that is on disk for certain."""
    fd = os.open(path, os.O_RDONLY)
    try:
        size = os.fstat(fd).st_size
        os.fdatasync(fd)
    finally:
        os.close(fd)
    return size


def sync_directory(directory: Path) -> None:
    """A file survives a power cut only once its directory entry is on disk too."""
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _translate_error(exc: OSError) -> JournalError:
    if exc.errno in _DISK_FULL_ERRNOS:
        return JournalFull(f"no room on the journal's disk: {exc}")
    return JournalError(f"the journal's disk fails: {exc}")
