"""Import of Admit's own CSV formats for endpoints, NASes and users, which `csv_writer` exports."""

import json
from collections.abc import Iterator
from sys import intern
from typing import Any

from nac.inventory.endpoints import bulk as endpoints
from nac.inventory.users import bulk as users
from nac.kit.bulk_rows import InputLine
from nac.onboarding.imports.document import (
    MAX_LINES,
    MAX_VALUES,
    ImportDocument,
    excerpt,
    too_many_values_at,
    unreadable_at,
)
from nac.onboarding.imports.table import MAX_ROW_LENGTH, TableColumns, read_table, unescape_formula
from nac.tenancy.nases import bulk as nases

_ATTRIBUTE = "attribute."
_BOOLEANS = {"yes": True, "true": True, "1": True, "no": False, "false": False, "0": False}
_ENDPOINT_CELLS = endpoints.COLUMNS
_ENDPOINTS = TableColumns(_ENDPOINT_CELLS, ("mac",), _ATTRIBUTE)
_NASES = TableColumns(nases.COLUMNS, ("name",))
_USERS = TableColumns(users.COLUMNS, ("name",))


def read_endpoints(text: str, document: ImportDocument) -> None:
    """Parse endpoints from CSV, or from JSON lines if the text begins with a brace."""
    if not text.strip():
        document.wrong(0, "", "The file is empty.", "Add one endpoint per line.")
        return
    if text.lstrip().startswith("{"):
        _read_json_lines(text, document)
        return
    count = 0
    for number, cells in _read_rows(text, _ENDPOINTS, document):
        values: dict[str, Any] = {name: cell for name, cell in cells.items() if name in _ENDPOINT_CELLS and cell}
        _split_groups(values)
        values["attributes"] = {
            # Interned, so that all rows share one string object per name.
            intern(name.removeprefix(_ATTRIBUTE)): cell
            for name, cell in cells.items()
            if name.startswith(_ATTRIBUTE) and cell
        }
        count += len(values) + len(values["attributes"])
        if count > MAX_VALUES:
            raise too_many_values_at(number)
        document.endpoints.append(InputLine(number, values))


def _read_json_lines(text: str, document: ImportDocument) -> None:
    if sum(map(text.count, "{[,")) > MAX_VALUES:
        raise too_many_values_at(0)
    count = 0
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        if len(line) > MAX_ROW_LENGTH:
            raise unreadable_at(
                number, f"The line has more than {MAX_ROW_LENGTH} characters.", "Write one endpoint per line."
            )
        count += 1
        if count > MAX_LINES:
            raise unreadable_at(
                number, f"The file has more than {MAX_LINES} endpoints.", "Split the file into several files."
            )
        try:
            values = json.loads(line)
        except (ValueError, RecursionError):
            document.wrong(number, "", "Invalid JSON.", "Write one object per line.")
            continue
        if not isinstance(values, dict):
            document.wrong(
                number, "", "The line is not an object.", 'Write the object like {"mac": "00:11:22:33:44:55"}.'
            )
        elif unknown := [key for key in values if key not in (*_ENDPOINT_CELLS, "attributes")]:
            there = ", ".join((*_ENDPOINT_CELLS, "attributes"))
            named = ", ".join(excerpt(key) for key in unknown[:5])
            document.wrong(number, "", f"Unknown field: {named}.", f"Use only: {there}.")
        else:
            document.endpoints.append(InputLine(number, values))


def read_nases(text: str, document: ImportDocument) -> None:
    for number, cells in _read_rows(text, _NASES, document):
        values: dict[str, Any] = {name: cell for name, cell in cells.items() if cell}
        for name in nases.FLAGS:
            _parse_boolean(values, name)
        document.nases.append(InputLine(number, values))


def read_users(text: str, document: ImportDocument) -> None:
    for number, cells in _read_rows(text, _USERS, document):
        values: dict[str, Any] = {name: cell for name, cell in cells.items() if cell}
        _split_groups(values)
        _parse_boolean(values, "disabled")
        document.users.append(InputLine(number, values))


def _read_rows(text: str, columns: TableColumns, document: ImportDocument) -> Iterator[tuple[int, dict[str, str]]]:
    for number, cells in read_table(text, columns, document):
        yield number, {name: unescape_formula(cell) for name, cell in cells.items()}


def _split_groups(values: dict[str, Any]) -> None:
    if "groups" in values:
        values["groups"] = [name.strip() for name in values["groups"].split(";") if name.strip()]


def _parse_boolean(values: dict[str, Any], name: str) -> None:
    """Convert a text such as "yes" or "0" to a boolean. Other texts stay, and the import reports them as mistakes."""
    if name in values:
        values[name] = _BOOLEANS.get(values[name].casefold(), values[name])
