"""Prints results of the API as JSON for programs, or as lines and tables for people."""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

import click

from cli.output import escape_unprintable, show_list, show_one
from cli.remote.catalog import load_catalog

# Fields whose text can contain operations of the API.
_ADVICE = ("advice", "detail", "plan", "remedy")
_OPERATION = re.compile(r"\b[a-z]+(?:[A-Z][a-z]+)+\b")


def show_result(document: Any, *, as_json: bool, is_page: bool = False, columns: Sequence[str] = ()) -> None:  # noqa: ANN401 -- any document
    if as_json:
        click.echo(json.dumps({} if document is None else document, indent=2))
        return
    if document is None:
        return
    if is_page:
        show_list(document["items"], as_json=False)
        if document["next"]:
            click.echo(f"More: --after {document['next']}", err=True)
    elif _is_table(document):
        show_list(_choose_columns(document, columns), as_json=False)
    elif isinstance(document, dict):
        _show_object(document)
    else:
        click.echo(json.dumps(document))


def name_commands(document: Any) -> Any:  # noqa: ANN401 -- any document
    """Return the document with advice that contains short commands instead of operations."""
    if isinstance(document, list):
        return [name_commands(each) for each in document]
    if not isinstance(document, dict):
        return document
    return {name: _rename(value) if name in _ADVICE else name_commands(value) for name, value in document.items()}


def _rename(value: Any) -> Any:  # noqa: ANN401 -- text, or a list of texts
    if isinstance(value, list):
        return [_rename(each) for each in value]
    if not isinstance(value, str):
        return name_commands(value)
    commands = load_catalog().commands
    return _OPERATION.sub(lambda found: f"./admit {commands[found[0]]}" if found[0] in commands else found[0], value)


def _show_object(document: Mapping[str, Any]) -> None:
    """Print single values (one per line), then sentences, then lists of objects as tables."""
    tables = {name: value for name, value in document.items() if value and _is_table(value)}
    texts = {name: value for name, value in document.items() if _is_text(value)}
    lines = {name: value for name, value in _flatten(document) if name not in tables | texts}
    show_one(lines, as_json=False)
    for name, sentences in texts.items():
        click.echo(f"\n{name}:")
        for sentence in sentences:
            click.echo(f"  {escape_unprintable(sentence)}")
    for name, rows in tables.items():
        click.echo(f"\n{name}:")
        show_list(_choose_columns(rows, ()), as_json=False)


def _flatten(document: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Return the members of the document. The name of a nested member contains a dot, such as `settings.url`."""
    found: list[tuple[str, Any]] = []
    for name, value in document.items():
        if isinstance(value, dict) and value:
            found += [(f"{name}.{inner}", each) for inner, each in _flatten(value)]
        else:
            found.append((name, None if value == {} else value))
    return found


def _is_table(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(each, dict) for each in value)


def _is_text(value: object) -> bool:
    return isinstance(value, list) and any(isinstance(each, str) and each.endswith(".") for each in value)


def _choose_columns(rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> list[dict[str, Any]]:
    """Return the rows with the existing columns of `columns`.

    If no column of `columns` exists, the rows keep all columns with simple values.
    """
    columns = [name for name in columns if rows and name in rows[0]]
    if not columns and rows:
        columns = [name for name in rows[0] if any(_has_cell(row.get(name)) for row in rows)]
    return [{name: row.get(name) for name in columns} for row in rows]


def _has_cell(value: object) -> bool:
    """Whether a table shows the value: the value is not empty and not an object."""
    return value not in (None, "", []) and not isinstance(value, dict)
