"""Exports in each format, which an independent reader reads back as the stored rows."""

import csv
import gzip
import io
import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pytest
from sqlalchemy import select
from sqlalchemy.orm import Session

from nac.kit.db.base import Base
from nac.logs.events import accounting, authentication
from nac.logs.events.document import Event
from nac.logs.events.event_values import EventTenant
from nac.logs.exports.columns import LOG_SOURCES, LogSource
from nac.models import AccountingLog, AuthLog
from nac.sessions.decisions.recorded_requests import to_microseconds
from tests.exports.conftest import DAY, NASTY, Exports

Rows = list[dict[str, Any]]


def read_csv(path: Path, source: LogSource) -> Rows:
    """Read a file by the rules of RFC 4180.

    An empty unquoted field is NULL, and the protective apostrophe is removed.
    """
    kinds = {column.name: column.kind for column in source.columns}
    text = gzip.decompress(path.read_bytes()).decode()
    header, *rows = fields(text)
    return [{name: _from_csv(value, kinds[name]) for name, value in zip(header, row, strict=True)} for row in rows]


def fields(text: str) -> list[list[str | None]]:
    """The fields of a line, None for an empty unquoted field. Python's reader does not distinguish these."""
    rows: list[list[str | None]] = []
    row: list[str | None] = []
    at = 0
    while at < len(text):
        if text[at] == '"':
            end = at + 1
            while text[end] != '"' or text[end : end + 2] == '""':
                end += 2 if text[end] == '"' else 1
            row.append(text[at + 1 : end].replace('""', '"'))
            at = end + 1
        else:
            end = min(index for index in (text.find(",", at), text.find("\n", at)) if index >= 0)
            row.append(text[at:end] or None)
            at = end
        if text[at] == "\n":
            rows.append(row)
            row = []
        at += 1
    return rows


def _from_csv(value: str | None, kind: str) -> Any:
    if value is None:
        return None
    match kind:
        case "text":
            return value.removeprefix("'")
        case "moment":
            return datetime.fromisoformat(value)
        case "integer" | "long":
            return int(value)
        case "boolean":
            return {"true": True, "false": False}[value]
        case "texts" | "json":
            return json.loads(value)
    return value


def read_json(path: Path, source: LogSource) -> Rows:
    kinds = {column.name: column.kind for column in source.columns}
    rows = [json.loads(line) for line in gzip.decompress(path.read_bytes()).split(b"\n") if line]
    return [
        {
            name: datetime.fromisoformat(value) if kinds[name] == "moment" and value else value
            for name, value in row.items()
        }
        for row in rows
    ]


def read_parquet(path: Path, source: LogSource) -> Rows:
    moments = [column.name for column in source.columns if column.kind == "moment"]
    replaced = ", ".join(f'epoch_us("{name}") AS "{name}"' for name in moments)
    with duckdb.connect() as connection:
        found = connection.execute(f"SELECT * REPLACE ({replaced}) FROM read_parquet(?)", [str(path)])
        names = [column[0] for column in found.description]
        rows = [dict(zip(names, row, strict=True)) for row in found.fetchall()]
    for row in rows:
        row.update({name: datetime.fromtimestamp(0, UTC) + timedelta(microseconds=row[name]) for name in moments})
        row.update({each.name: json.loads(row[each.name]) for each in source.columns if each.kind == "json"})
    return rows


READERS: dict[str, Callable[[Path, LogSource], Rows]] = {"csv": read_csv, "jsonl": read_json, "parquet": read_parquet}


def stored(exports: Exports, table_name: str, source: LogSource) -> Rows:
    """The rows of alpha in the database."""
    table = Base.metadata.tables[table_name]
    with Session(exports.owner) as session:
        rows = session.execute(select(table).where(table.c.tenant_id == exports.alpha)).mappings().all()
    kinds = {column.name: column.kind for column in source.columns}
    return [{name: _plain(row[name], kinds[name]) for name in kinds} for row in rows]


def _plain(value: Any, kind: str) -> Any:
    if kind == "moment" and value is not None:
        return value.astimezone(UTC)
    if kind == "name" and value is not None:
        text = str(value)
        return ":".join(text[n : n + 2] for n in range(0, 12, 2)) if len(text) == 12 else text
    return value


def add_nasty_rows(exports: Exports) -> None:
    at = exports.today - 2 * DAY
    for number, text in enumerate(NASTY):
        moment = at + timedelta(hours=number % 24, microseconds=number)
        exports.add(
            "auth_log",
            moment,
            identity=text,
            detail=text,
            reply=[["Reply-Message", ":=", text]],
            request={text: [text, None, 1.5]},
            nas_address="2001:db8::1" if number % 2 else "192.0.2.7",
            mac=None if number % 3 else "02a0c0000001",
            permitted=bool(number % 2),
        )
        exports.add("accounting_log", moment, identity=text, attributes=[[text, text]], input_octets=(1 << 63) - 1)
        exports.add(
            "session_history", moment, identity=text, flags=[text, "b"], delegated_prefix="2001:db8:1::/48", mac=None
        )
        exports.add("usage_hours", at + timedelta(hours=number % 24), identity=text, input_octets=number << 40)
    exports.add("auth_log", at, tenant=exports.bravo, identity="of bravo")
    exports.add("usage_hours", at, tenant=exports.bravo, identity="of bravo")


TABLES = {"auth": "auth_log", "accounting": "accounting_log", "sessions": "session_history", "usage": "usage_hours"}


EVENTS = {
    "auth": ("authentication", (AuthLog, authentication.from_log)),
    "accounting": ("accounting", (AccountingLog, accounting.from_log)),
}


def events(exports: Exports, model: Any, told: Callable[..., Event]) -> set[str]:
    """The ids of the events of alpha's rows."""
    with Session(exports.owner) as session:
        rows = session.scalars(select(model).where(model.tenant_id == exports.alpha))
        return {told(row, tenant=EventTenant(str(exports.alpha), "alpha")).event.id for row in rows}


def in_order(rows: Rows) -> list[str]:
    return sorted(json.dumps(row, sort_keys=True, default=str) for row in rows)


@pytest.mark.parametrize("form", READERS)
def test_every_row_of_every_log_round_trips(exports: Exports, form: str) -> None:
    add_nasty_rows(exports)
    for log, table in TABLES.items():
        job_id = exports.start(log, form)
        assert exports.run() == job_id
        source = LOG_SOURCES[log]
        read = [row for path in exports.files(job_id) for row in READERS[form](path, source)]
        assert in_order(read) == in_order(stored(exports, table, source))
        job = exports.job(job_id)
        assert (job.state, job.rows, job.error) == ("done", len(NASTY), "")
        if log in EVENTS:
            # As docs/reference/events.md documents.
            kind, told = EVENTS[log]
            ids = {f"{kind}:{to_microseconds(row['at'])}-{row['id']}" for row in read}
            assert ids == events(exports, *told)


def test_no_spreadsheet_field_begins_as_a_formula(exports: Exports) -> None:
    add_nasty_rows(exports)
    job_id = exports.start("auth", "csv")
    exports.run()
    (path,) = exports.files(job_id)
    text = gzip.decompress(path.read_bytes()).decode()
    rows = list(csv.reader(io.StringIO(text, newline="")))
    assert len(rows) == 1 + len(NASTY)
    first = {field[0] for row in rows for field in row if field}
    assert not first & set("=+-@\t\r\n\uff1d")
    assert "'" in first


def test_parquet_has_types(exports: Exports) -> None:
    add_nasty_rows(exports)
    job_id = exports.start("sessions", "parquet")
    exports.run()
    (path,) = exports.files(job_id)
    with duckdb.connect() as connection:
        described = connection.execute("DESCRIBE SELECT * FROM read_parquet(?)", [str(path)]).fetchall()
    types = {row[0]: row[1] for row in described}
    assert types["stopped_at"] == "TIMESTAMP WITH TIME ZONE"
    assert types["input_octets"] == "BIGINT"
    assert types["flags"] == "VARCHAR[]"
    assert types["identity"] == "VARCHAR"
