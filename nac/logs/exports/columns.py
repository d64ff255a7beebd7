"""The exported columns of each log, with their kinds and SQL expressions."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, cast

from psycopg import sql
from sqlalchemy import ARRAY, BigInteger, Boolean, Column, DateTime, Integer, Table, Text, Uuid
from sqlalchemy.dialects.postgresql import JSON

from nac.kit.db.base import HostAddress, Mac
from nac.kit.ids import TenantId
from nac.logs.log_tables import LogName
from nac.models import USAGE_HOURS, AccountingLog, AuthLog, EndedSession

ColumnKind = Literal["text", "name", "moment", "integer", "long", "boolean", "texts", "json"]
# Exports omit these columns: `tenant_id`, because it is the name of the export's folder, and internal columns.
_OMITTED_COLUMNS = {"tenant_id", "cell_id", "mac_key", "identity_key", "common_name_key"}
_UTC_TEXT_SQL = sql.SQL("""to_char({} AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')""")
# Spreadsheets evaluate text that begins with one of these characters as a formula, so Admit puts an apostrophe before
# the text. A program that reads the file must remove a leading apostrophe from each text.
_ESCAPED_TEXT_SQL = sql.SQL(r"CASE WHEN {0} ~ '^[-=+@''\t\r\n\uff1d\uff0b\uff0d\uff20]' THEN '''' || {0} ELSE {0} END")


@dataclass(frozen=True, slots=True)
class ExportedColumn:
    name: str
    # "text" is free text, "name" an id or address, "json" a text that contains JSON.
    kind: ColumnKind

    def plain(self, table_column: Column[object]) -> sql.Composable:
        """Return the SQL expression for the column's value."""
        column = sql.Identifier(self.name)
        if isinstance(table_column.type, HostAddress):
            return sql.SQL("abbrev({})").format(column)
        return sql.SQL("{}::text").format(column) if self.kind in ("name", "json") else column


@dataclass(frozen=True, slots=True)
class ExportRange:
    """The tenant's rows from `since` (included) to `until` (excluded).

    `rows_before` is a transaction id. If it is set, the range has only rows that transactions with an id below
    `rows_before` wrote, and Admit reads these rows only from the table from which retention deletes.
    """

    tenant_id: TenantId
    since: datetime
    until: datetime
    rows_before: int | None = None


@dataclass(frozen=True, slots=True)
class LogSource:
    # Table or view with all rows of the log. Retention deletes only from `table`.
    relation: str
    # Name of the column with the time of a row.
    moment: str
    table: Table
    columns: tuple[ExportedColumn, ...]

    def for_csv(self, stretch: ExportRange) -> sql.Composed:
        def written(column: ExportedColumn) -> sql.Composable:
            name, plain = sql.Identifier(column.name), column.plain(self.table.c[column.name])
            match column.kind:
                case "moment":
                    return _UTC_TEXT_SQL.format(name)
                case "boolean":
                    return sql.SQL("{}::text").format(name)
                case "texts":
                    return sql.SQL("array_to_json({})::text").format(name)
                case "text":
                    return _ESCAPED_TEXT_SQL.format(name)
            return plain

        quoted = [column for column in self.columns if column.kind in ("text", "name", "json", "texts")]
        return sql.SQL("COPY ({}) TO STDOUT (FORMAT csv, HEADER, FORCE_QUOTE ({}))").format(
            self._select({column.name: written(column) for column in self.columns}, stretch),
            sql.SQL(", ").join(sql.Identifier(column.name) for column in quoted),
        )

    def for_json(self, stretch: ExportRange) -> sql.Composed:
        def written(column: ExportedColumn) -> sql.Composable:
            name = sql.Identifier(column.name)
            if column.kind == "moment":
                return _UTC_TEXT_SQL.format(name)
            # In JSON lines, JSON values stay objects and lists, not text.
            return name if column.kind == "json" else column.plain(self.table.c[column.name])

        rows = self._select({column.name: written(column) for column in self.columns}, stretch)
        return sql.SQL("SELECT row_to_json(r)::text FROM ({}) r").format(rows)

    def for_parquet(self, stretch: ExportRange) -> sql.Composed:
        written = {column.name: column.plain(self.table.c[column.name]) for column in self.columns}
        return self._select(written, stretch)

    def _select(self, written: Mapping[str, sql.Composable], stretch: ExportRange) -> sql.Composed:
        # Filter by the column of the table, which has an index, and not by the converted value.
        moment = sql.Identifier("source", self.moment)
        return sql.SQL(
            "SELECT {columns} FROM {relation} source"
            " WHERE tenant_id = {tenant} AND {moment} >= {since} AND {moment} < {until} AND {settled} ORDER BY {moment}"
        ).format(
            columns=sql.SQL(", ").join(
                sql.SQL("{} AS {}").format(expression, sql.Identifier(name)) for name, expression in written.items()
            ),
            relation=sql.Identifier(self.relation if stretch.rows_before is None else self.table.name),
            tenant=sql.Literal(stretch.tenant_id),
            moment=moment,
            since=sql.Literal(stretch.since),
            until=sql.Literal(stretch.until),
            settled=sql.SQL("true")
            if stretch.rows_before is None
            else sql.SQL("is_written_before(source.xmin, {})").format(sql.Literal(stretch.rows_before)),
        )


def _column_kind(column: Column[object]) -> ColumnKind:
    match column.type:
        case DateTime():
            return "moment"
        case Boolean():
            return "boolean"
        case BigInteger():
            return "long"
        case Integer():
            return "integer"
        case ARRAY():
            return "texts"
        case JSON():
            return "json"
        case Uuid() | Mac() | HostAddress():
            return "name"
        case Text():
            return "text"
    raise TypeError(column.type)


def _build_source(relation: str, moment: str, table: Table) -> LogSource:
    columns = tuple(
        ExportedColumn(column.name, _column_kind(cast("Column[object]", column)))
        for column in table.columns
        if column.name not in _OMITTED_COLUMNS
    )
    return LogSource(relation, moment, table, columns)


LOG_SOURCES: dict[LogName, LogSource] = {
    "auth": _build_source("auth_log", "at", cast("Table", AuthLog.__table__)),
    "accounting": _build_source("accounting_log", "at", cast("Table", AccountingLog.__table__)),
    # The view ended_sessions includes ended sessions that are not in the history table yet.
    "sessions": _build_source("ended_sessions", "stopped_at", cast("Table", EndedSession.__table__)),
    "usage": _build_source("usage_hours", "hour", USAGE_HOURS),
}
