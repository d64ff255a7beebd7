"""The forms that Admit writes itself (nac.imports.writing): CSV of endpoints, NASes and users."""

import json
from collections.abc import Iterator
from sys import intern
from typing import Any

from nac.endpoints import bulk as endpoints
from nac.imports.document import MOST_LINES, MOST_VALUES, Document, refuse, refuse_values, shown
from nac.imports.table import LONGEST_ROW, Columns, read_table, unguarded
from nac.nases import bulk as nases
from nac.rows import Line
from nac.users import bulk as users

_ATTRIBUTE = "attribute."
_TRUTH = {"yes": True, "true": True, "1": True, "no": False, "false": False, "0": False}
_CELLS = endpoints.COLUMNS
_ENDPOINTS = Columns(_CELLS, ("mac",), _ATTRIBUTE)
_NASES = Columns(nases.COLUMNS, ("name",))
_USERS = Columns(users.COLUMNS, ("name",))


def read_endpoints(text: str, document: Document) -> None:
    """Or JSON lines, which begin with a brace."""
    if not text.strip():
        document.wrong(0, "", "There is no line in it.", "Give one endpoint in each line.")
        return
    if text.lstrip().startswith("{"):
        _read_json_lines(text, document)
        return
    count = 0
    for number, cells in _table(text, _ENDPOINTS, document):
        values: dict[str, Any] = {name: cell for name, cell in cells.items() if name in _CELLS and cell}
        _split_groups(values)
        values["attributes"] = {
            # The same text for all rows.
            intern(name.removeprefix(_ATTRIBUTE)): cell
            for name, cell in cells.items()
            if name.startswith(_ATTRIBUTE) and cell
        }
        count += len(values) + len(values["attributes"])
        if count > MOST_VALUES:
            raise refuse_values(number)
        document.endpoints.append(Line(number, values))


def _read_json_lines(text: str, document: Document) -> None:
    if sum(map(text.count, "{[,")) > MOST_VALUES:
        raise refuse_values(0)
    count = 0
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        if len(line) > LONGEST_ROW:
            raise refuse(number, f"More than {LONGEST_ROW} characters in a line.", "Give one endpoint in each line.")
        count += 1
        if count > MOST_LINES:
            raise refuse(number, f"More than {MOST_LINES} endpoints.", "Use several files.")
        try:
            values = json.loads(line)
        except (ValueError, RecursionError):
            document.wrong(number, "", "The line is no JSON.", "Give one object in each line.")
            continue
        if not isinstance(values, dict):
            document.wrong(number, "", "The line is no object.", 'Write it as {"mac": "00:11:22:33:44:55"}.')
        elif unknown := [key for key in values if key not in (*_CELLS, "attributes")]:
            there = ", ".join((*_CELLS, "attributes"))
            named = ", ".join(shown(key) for key in unknown[:5])
            document.wrong(number, "", f"There is no such name: {named}.", f"There are: {there}.")
        else:
            document.endpoints.append(Line(number, values))


def read_nases(text: str, document: Document) -> None:
    for number, cells in _table(text, _NASES, document):
        values: dict[str, Any] = {name: cell for name, cell in cells.items() if cell}
        for name in nases.FLAGS:
            _read_truth(values, name)
        document.nases.append(Line(number, values))


def read_users(text: str, document: Document) -> None:
    for number, cells in _table(text, _USERS, document):
        values: dict[str, Any] = {name: cell for name, cell in cells.items() if cell}
        _split_groups(values)
        _read_truth(values, "disabled")
        document.users.append(Line(number, values))


def _table(text: str, columns: Columns, document: Document) -> Iterator[tuple[int, dict[str, str]]]:
    for number, cells in read_table(text, columns, document):
        yield number, {name: unguarded(cell) for name, cell in cells.items()}


def _split_groups(values: dict[str, Any]) -> None:
    if "groups" in values:
        values["groups"] = [name.strip() for name in values["groups"].split(";") if name.strip()]


def _read_truth(values: dict[str, Any], name: str) -> None:
    """What is neither stays text, and so a mistake."""
    if name in values:
        values[name] = _TRUTH.get(values[name].casefold(), values[name])
