"""Short commands such as `endpoint add`, from the table in `commands.toml`.

A line is `verb = "operationId word..."`. A word has one of these forms:

* `field`: the body field or parameter `field` is an argument. The argument of `field?` is optional, and the argument of
  `field...` takes several values.
* `@file`: the argument is a file whose content becomes the body.
* `field@`: the argument is a file that contains the value of the field.
* `--option=field`: the option sets the field, but has another name than the field. A path field without an option is an
  argument.
* `--on/--off=field`: the option `--on` sets the field to true, and the option `--off` sets the field to false.
* `--option=field@`: the option takes a file that contains the value.
* `--option=field,`: the option takes a list separated by commas.
* `--option=field#`: the option takes RADIUS attributes to change.
* `--option=field-`: the option removes keys of the object `field`.
* `--flag>operationId`: the flag calls another operation.
* `--flag=field:value`: the flag sets the field to this value.
* `field=value`: the field has this value, unless the user sets a flag of the field.
* `^field=listNouns.name:id`: the value of the field is the `id` of the item with this `name`. Without `:id`, the value
  of the field is the name itself. If the user omits the value, the command uses the only item of the list.
* `?field`: the exit status is 1 unless this field of the result is true.
* `&`: the command waits until the started job ends.
* `~`: the command waits until radiusd runs with the change. `~field`: the command waits only if the user sets this
  field.
* `!`: the command asks for confirmation.

If `|` separates several operations, the command calls the first operation whose path values and required fields are all
set. If no such operation exists, the command calls the last operation. A name with `{owner}` stands for three
operations, with Tenant, Msp and Platform in place of `{owner}`.

The verb `command` makes the noun itself a command, such as `usage`. A noun of two words, such as `retention hold`, is a
command group within the group of the first word. Options of a noun apply to all commands of the noun.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cli.remote.description import hyphenate

TABLE = Path(__file__).with_name("commands.toml")
# Verb in the table that makes the noun itself a command, such as `usage`.
COMMAND = "command"
_OWNERS = ("Tenant", "Msp", "Platform")
_KINDS_OF_OPTIONS = "@,#"
_MARKS = "!@?~&"
_HEADER = re.compile(r"^\[(.+)\]$", re.MULTILINE)
_OWNER_MARK = "{owner}"


@dataclass(frozen=True, slots=True)
class Argument:
    field: str
    optional: bool = False
    repeated: bool = False
    is_file: bool = False


@dataclass(frozen=True, slots=True)
class Lookup:
    """Finds the value of a field in a list of the API."""

    operation: str
    # Names of two fields of an item: the field that people type, and the field that becomes the value.
    key: str
    member: str


@dataclass(frozen=True, slots=True)
class Alias:
    # The command calls the first operation for which the user set all path values and required fields, otherwise the
    # last.
    operations: tuple[str, ...]
    arguments: tuple[Argument, ...] = ()
    # Names of options by field.
    options: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    # Fields whose option accepts a file, a list separated by commas, or RADIUS attributes.
    files: tuple[str, ...] = ()
    lists: tuple[str, ...] = ()
    changes: tuple[str, ...] = ()
    # Options that remove keys of an object, by field.
    removals: Mapping[str, str] = field(default_factory=dict)
    fixed: Mapping[str, Any] = field(default_factory=dict)
    # For each field: the value that each flag sets.
    flags: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    # Operations by the flag that calls the operation. These operations are also at the end of `operations`.
    calls: Mapping[str, str] = field(default_factory=dict)
    lookups: Mapping[str, Lookup] = field(default_factory=dict)
    is_confirmed: bool = False
    # Name of the argument with the file for the body; "" for none.
    body_file: str = ""
    # Field of the result that must be true for exit status 0; "" for none.
    success_field: str = ""
    waits_for_job: bool = False
    # Whether to wait until radiusd runs with the change, and the field whose change requires the wait; "" for any
    # field.
    waits_for_radiusd: bool = False
    radiusd_field: str = ""
    # Columns of a list for people; empty for all.
    columns: tuple[str, ...] = ()
    help: str = ""


@dataclass(frozen=True, slots=True)
class Noun:
    help: str
    commands: Mapping[str, Alias]


def list_nouns() -> list[str]:
    """Return the names of the nouns, without parsing the table."""
    return [name.strip('"') for name in _HEADER.findall(TABLE.read_text(encoding="utf-8"))]


def read_nouns(text: str) -> dict[str, Noun]:
    # Imported here because only the catalog parses the table.
    import tomllib

    return {name: _noun(told) for name, told in tomllib.loads(text).items()}


def _noun(told: Mapping[str, Any]) -> Noun:
    common = str(told.get("options", ""))
    columns = tuple(str(told.get("columns", "")).split())
    lines = {verb: line for verb, line in told.items() if verb not in ("help", "options", "columns")}
    return Noun(told["help"], {verb: parse_alias(line, common, columns) for verb, line in lines.items()})


def parse_alias(line: str, common: str = "", columns: tuple[str, ...] = ()) -> Alias:
    """Parse a line of the table. `common` has the options for all commands of the noun."""
    line, _, text = line.partition(" # ")
    operation, *words = f"{line} {common}".split()
    arguments: list[Argument] = []
    options: dict[str, tuple[str, ...]] = {}
    kinds: dict[str, str] = {}
    removals: dict[str, str] = {}
    fixed: dict[str, Any] = {}
    flags: dict[str, dict[str, Any]] = {}
    calls: dict[str, str] = {}
    lookups: dict[str, Lookup] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if word[0] in _MARKS:
            continue
        if word[0] == "^":
            lookups[name[1:]] = _parse_lookup(value)
        elif not equals and ">" in name:
            flag, _, called = name.partition(">")
            calls[flag] = hyphenate(called)
        elif not equals:
            plain = name.rstrip(".?@")
            arguments.append(Argument(plain, name.endswith("?"), name.endswith("..."), name.endswith("@")))
        elif not name.startswith("-"):
            fixed.setdefault(name, _read_value(value))
        elif ":" in value:
            owner, _, flag_value = value.partition(":")
            flags.setdefault(owner, {})[name] = _read_value(flag_value)
        elif value.endswith("-"):
            removals[value[:-1]] = name
        else:
            plain = value.rstrip(_KINDS_OF_OPTIONS)
            if plain not in options:
                options[plain] = tuple(name.split("/"))
                kinds[plain] = value.removeprefix(plain)
    owners = _OWNERS if _OWNER_MARK in operation else ("",)
    names = [operation.replace(_OWNER_MARK, owner) for owner in owners]
    operations = (*(hyphenate(name) for each in names for name in each.split("|")), *calls.values())
    marks = {word[0]: word[1:] for word in words if word[0] in _MARKS}
    return Alias(
        operations,
        tuple(arguments),
        options,
        files=_list_of_kind(kinds, "@"),
        lists=_list_of_kind(kinds, ","),
        changes=_list_of_kind(kinds, "#"),
        removals=removals,
        fixed=fixed,
        flags=flags,
        calls=calls,
        lookups=lookups,
        is_confirmed="!" in marks,
        body_file=marks.get("@", ""),
        success_field=marks.get("?", ""),
        waits_for_job="&" in marks,
        waits_for_radiusd="~" in marks,
        radiusd_field=marks.get("~", ""),
        columns=columns,
        help=text,
    )


def _parse_lookup(text: str) -> Lookup:
    operation, _, members = text.partition(".")
    key, _, member = members.partition(":")
    return Lookup(hyphenate(operation), key, member or key)


def _list_of_kind(kinds: Mapping[str, str], kind: str) -> tuple[str, ...]:
    return tuple(name for name, each in kinds.items() if each == kind)


def _read_value(text: str) -> Any:  # noqa: ANN401 -- JSON
    """Return the value if the text is JSON, otherwise the text."""
    try:
        return json.loads(text)
    except ValueError:
        return text
