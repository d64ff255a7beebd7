"""Writes the rows of a period to a file, row by row, so that memory use is constant."""

import gzip
import hashlib
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO
from uuid import uuid4

import psycopg

from nac.kit.text_format import format_size
from nac.logs.exports.columns import ExportRange, LogSource
from nac.models.export import ExportFormat

FILE_SUFFIXES: dict[ExportFormat, str] = {"csv": ".csv.gz", "jsonl": ".jsonl.gz", "parquet": ".parquet"}
_FETCH_ROWS = 2_000
_GZIP_LEVEL = 5
# Number of bytes between two calls of `look`, which checks free disk space and the state of the job.
_CHECK_BYTES = 4 << 20


class DiskFull(OSError):
    """Too little disk space is free for exports."""


@dataclass(frozen=True, slots=True)
class WrittenFile:
    path: Path
    rows: int
    bytes: int
    sha256: str


class _MeasuredFile:
    """A file that counts and hashes the written data, and calls `look` after every _CHECK_BYTES bytes."""

    def __init__(self, file: BinaryIO, look: Callable[[], None]) -> None:
        self._file = file
        self._look = look
        self._unlooked = 0
        self.bytes = 0
        self.sha256 = hashlib.sha256()

    def write(self, data: bytes) -> int:
        self._file.write(data)
        size = memoryview(data).nbytes
        self.sha256.update(data)
        self.bytes += size
        self._unlooked += size
        if self._unlooked >= _CHECK_BYTES:
            self._unlooked = 0
            self._look()
        return size

    def flush(self) -> None:
        self._file.flush()

    def tell(self) -> int:
        return self.bytes

    # pyarrow and gzip require this attribute and the methods below.
    closed = False

    def close(self) -> None:
        """Do nothing, because the function that opened the file also closes the file."""

    def readable(self) -> bool:
        return False

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return False


def write_rows(
    connection: psycopg.Connection,
    source: LogSource,
    *,
    stretch: ExportRange,
    format: ExportFormat,  # noqa: A002 -- as it is called everywhere
    path: Path,
    least_free_bytes: int,
    look: Callable[[], None] = lambda: None,
) -> WrittenFile | None:
    """Write the rows of one database snapshot to a temporary file in the folder of `path`.

    Returns None if the snapshot has no rows in the period. The caller renames the file to `path`. Calls `look`
    regularly. Raises DiskFull, other OSErrors, and errors of `look`. After an error, deletes the temporary file.
    """

    def look_around() -> None:
        require_free_space(path.parent, least_free_bytes)
        look()

    temporary = path.with_name(f".{path.name}.{uuid4().hex}")
    try:
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o640)
        with os.fdopen(handle, "wb") as file:
            os.fchmod(handle, 0o640)
            look_around()
            measured = _MeasuredFile(file, look_around)
            rows = _WRITERS[format](connection, source, stretch, measured)
            file.flush()
            os.fsync(handle)
        if not rows:
            temporary.unlink()
            return None
        return WrittenFile(temporary, rows, measured.bytes, measured.sha256.hexdigest())
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def require_free_space(folder: Path, least_free_bytes: int) -> None:
    """Raise DiskFull if less than `least_free_bytes` are free, because journal and database may be on the same disk."""
    free = shutil.disk_usage(folder).free
    if free < least_free_bytes:
        needed = format_size(least_free_bytes)
        raise DiskFull(f"{format_size(free)} are free for exports, but {needed} must stay free")


_RowWriter = Callable[[psycopg.Connection, LogSource, ExportRange, _MeasuredFile], int]


def _write_csv(connection: psycopg.Connection, source: LogSource, stretch: ExportRange, to: _MeasuredFile) -> int:
    with gzip.GzipFile(filename="", mode="wb", compresslevel=_GZIP_LEVEL, fileobj=to, mtime=0) as file:
        cursor = connection.cursor()
        with cursor.copy(source.for_csv(stretch)) as copy:
            for data in copy:
                file.write(data)
    return max(cursor.rowcount, 0)


def _write_jsonl(connection: psycopg.Connection, source: LogSource, stretch: ExportRange, to: _MeasuredFile) -> int:
    rows = 0
    with (
        gzip.GzipFile(filename="", mode="wb", compresslevel=_GZIP_LEVEL, fileobj=to, mtime=0) as file,
        connection.cursor(name="export") as cursor,
    ):
        cursor.execute(source.for_json(stretch))
        while fetched := cursor.fetchmany(_FETCH_ROWS):
            # PostgreSQL may put line breaks into JSON. Inside of strings, JSON escapes line breaks (RFC 8259 7).
            file.write(b"".join(_one_line(line) for (line,) in fetched))
            rows += len(fetched)
    return rows


def _one_line(line: str) -> bytes:
    return line.replace("\n", " ").replace("\r", " ").encode() + b"\n"


def _write_parquet(connection: psycopg.Connection, source: LogSource, stretch: ExportRange, to: _MeasuredFile) -> int:
    # Imported on first use, because it takes a third of a second and 60 MB, and most exports do not need it.
    from nac.logs.exports.parquet import ParquetTable

    rows = 0
    with connection.cursor(name="export") as cursor, ParquetTable(source, to) as table:
        cursor.execute(source.for_parquet(stretch))
        while fetched := cursor.fetchmany(_FETCH_ROWS):
            table.add(fetched)
            rows += len(fetched)
    return rows


_WRITERS: dict[ExportFormat, _RowWriter] = {"csv": _write_csv, "jsonl": _write_jsonl, "parquet": _write_parquet}
