"""Writes rows as Parquet with typed columns, one row group at a time."""

from collections.abc import Sequence
from types import TracebackType
from typing import Any

import pyarrow as pa
import pyarrow.parquet

from nac.logs.exports.columns import ColumnKind, LogSource

# Number of rows that stay in memory before they are compressed and written.
GROUP_ROWS = 10_000
_TYPES: dict[ColumnKind, Any] = {
    "text": pa.string(),
    "name": pa.string(),
    "json": pa.string(),
    "moment": pa.timestamp("us", tz="UTC"),
    "integer": pa.int32(),
    "long": pa.int64(),
    "boolean": pa.bool_(),
    "texts": pa.list_(pa.string()),
}


class ParquetTable:
    """Context manager that writes a Parquet file. The file is complete when the context ends without an error."""

    def __init__(self, source: LogSource, file: object) -> None:
        self._schema = pa.schema([(column.name, _TYPES[column.kind]) for column in source.columns])
        self._file = pa.PythonFile(file, mode="w")
        self._writer = pyarrow.parquet.ParquetWriter(self._file, self._schema, compression="zstd")
        self._waiting: list[Sequence[object]] = []

    def __enter__(self) -> "ParquetTable":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        if exc is None:
            self._write()
            self._writer.close()
        self._file.close()

    def add(self, rows: Sequence[Sequence[object]]) -> None:
        self._waiting += rows
        if len(self._waiting) >= GROUP_ROWS:
            self._write()

    def _write(self) -> None:
        if self._waiting:
            columns = zip(*self._waiting, strict=True)
            arrays = [pa.array(values, field.type) for values, field in zip(columns, self._schema, strict=True)]
            self._writer.write_batch(pa.RecordBatch.from_arrays(arrays, schema=self._schema))
            self._waiting = []
