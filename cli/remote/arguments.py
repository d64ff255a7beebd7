"""Builds requests to the API from the arguments and options of a command."""

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, BinaryIO

import click

from cli.errors import require_utf8
from cli.files import first_line
from cli.remote.aliases import Alias
from cli.remote.client import RequestArguments
from cli.remote.description import Operation, OperationInput
from cli.remote.options import SECRETS, format_metavar, name_flag, name_input, name_variable, name_variable_of_flag
from cli.remote.value_types import parse_changes, parse_member
from nac.kit.errors import InvalidInput


def choose_operation(operations: Sequence[Operation], alias: Alias, given: Mapping[str, Any]) -> Operation:
    """Return the operation that a flag selects, otherwise the first operation with all required values.

    Raises InvalidInput if the operation does not accept all values.
    """
    flag = next((name for name in alias.calls if given.get(name_variable_of_flag(name))), "")
    by_name = {operation.name: operation for operation in operations}
    usual = [operation for operation in operations if operation.name not in alias.calls.values()]
    operation = (
        by_name[alias.calls[flag]] if flag else next((o for o in usual if _is_given(o, alias, given)), usual[-1])
    )
    known = {name_variable(value) for value in operation.values}
    for value in (value for each in operations for value in each.values):
        if name_variable(value) not in known and given.get(name_variable(value)) not in (None, ()):
            others = " or ".join(
                format_metavar(v.name) for v in operation.values if v.where == "path" and v.name != "tenant"
            )
            name = alias.options.get(value.name, (f"--{value.option}",))[0]
            raise InvalidInput(f"{name} cannot be combined with {flag or others or '--tenant'}.", place=name)
    return operation


def _is_given(operation: Operation, alias: Alias, given: Mapping[str, Any]) -> bool:
    """Whether the user set all path values and all required body values of the operation, or a lookup can find them."""
    required = [v for v in operation.values if v.where == "path" or (v.where == "body" and v.required)]
    return all(given.get(name_variable(value)) or value.name in alias.lookups for value in required)


def _is_cleared(value: OperationInput, alias: Alias | None, operation: Operation) -> bool:
    """Whether an argument without values sets the field to an empty list."""
    return operation.method == "PATCH" and alias is not None and value.name in {each.field for each in alias.arguments}


def _list_chosen_flags(value: OperationInput, alias: Alias | None, options: Mapping[str, Any]) -> list[Any]:
    """Return a list with the value of the flag that the user chose for a field; empty without a flag.

    Raises InvalidInput for several flags.
    """
    flags = alias.flags.get(value.name, {}) if alias else {}
    chosen = [(name, sent) for name, sent in flags.items() if options.get(name_flag(value, name))]
    if len(chosen) > 1:
        names = " and ".join(name for name, _ in chosen)
        raise InvalidInput(f"{names} cannot be combined.", place=chosen[1][0], remedy="Use only one of these options.")
    return [sent for _, sent in chosen]


def collect_arguments(operation: Operation, options: Mapping[str, Any], alias: Alias | None = None) -> RequestArguments:
    given = RequestArguments()
    for value in operation.values:
        found: Any = options.get(name_variable(value))
        option = name_input(value, alias) if alias else f"--{value.option}"
        if (file := options.get(f"{name_variable(value)}_file")) is not None:
            found = first_line(file)
        if options.get(f"{name_variable(value)}_none"):
            given.members[value.name] = [] if value.repeated and not value.nullable else None
            continue
        for chosen in _list_chosen_flags(value, alias, options):
            found = chosen
        if alias and found is None:
            found = alias.fixed.get(value.name)
        if found is None and alias and value.required and value.name in SECRETS:
            is_new = not alias.success_field
            found = click.prompt(value.name.title(), hide_input=True, confirmation_prompt=is_new, err=True)
        if alias and (removed := options.get(f"{name_variable(value)}_removed")):
            found = (*(found or ()), *(f"{name}=" for name in removed))
        if found is None or (found == () and not _is_cleared(value, alias, operation)):
            continue
        if found == "-" and value.option == "url":
            # A URL can contain a key, which other users can see in the list of processes.
            # Reads no further than the line: the lines after the URL can be the headers.
            with require_utf8("standard input"):
                found = sys.stdin.buffer.readline().decode().rstrip("\r\n")
        if alias and (
            value.name in alias.files or any(value.name == each.field and each.is_file for each in alias.arguments)
        ):
            found = _read_file(value, found)
        if alias and value.name in alias.lists:
            found = [part.strip() for text in found for part in text.split(",") if part.strip()]
        match value.where:
            case "path":
                given.path[value.name] = str(found)
            case "query":
                given.query[value.name] = list(found) if value.repeated else format_query_value(found)
            case "header":
                given.headers[value.name] = str(found)
            case "body":
                is_change = alias is not None and value.name in alias.changes
                read = parse_changes(found) if is_change else parse_member(value, found, option=option)
                folder, _, name = value.name.rpartition(".")
                (given.members.setdefault(folder, {}) if folder else given.members)[name] = read
    if operation.takes:
        given.headers["Content-Type"] = operation.takes
    return given


def _read_file(value: OperationInput, file: BinaryIO) -> Any:  # noqa: ANN401 -- text, or pairs of a map
    place = getattr(file, "name", "standard input")
    with require_utf8(place):
        text = file.read().decode()
    return tuple(_read_pairs(text, place)) if value.kind == "texts" else text


def _read_pairs(text: str, place: str) -> Iterator[str]:
    """Return names and values of lines such as `Authorization: Bearer ...`. Raises InvalidInput."""
    names = set()
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        name, colon, value = line.partition(":")
        if not colon or name in names:
            raise InvalidInput(
                "Duplicate header." if colon else "Invalid header.",
                place=f"{place}, line {number}",
                remedy="Use Name: value, each name once.",
            )
        names.add(name)
        yield f"{name}={value.strip()}"


def format_query_value(value: object) -> object:
    return str(value).lower() if isinstance(value, bool) else value


def read_body(operation: Operation, file: BinaryIO | None, given: RequestArguments) -> bytes | None:
    if not operation.takes:
        return None
    whole = file.read() if file is not None else None
    if not given.members and whole is not None:
        return whole
    if whole is None:
        return json.dumps(given.members).encode()
    try:
        document = json.loads(whole)
    except (ValueError, RecursionError) as exc:
        raise InvalidInput(f"Invalid JSON: {exc}.", place="--body") from exc
    if not isinstance(document, dict):
        raise InvalidInput(
            "The body is not a JSON object.", place="--body", remedy="Use an object, or omit the other options."
        )
    return json.dumps(document | given.members).encode()
