"""The catalog: a file with the operations of this checkout's API and the short commands, which loads in milliseconds.

Admit creates the file from the code at the first use and after each change of the code. The creation takes seconds.
"""

import gc
import hashlib
import importlib
import json
import os
import pkgutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any, Final

import click

import cli.commands
from cli.remote.aliases import COMMAND, TABLE, Alias, Argument, Lookup
from cli.remote.description import Document, Operation, OperationInput, read_operations
from nac.kit.private_files import write_private

CHECKOUT: Final = Path(__file__).resolve().parent.parent.parent
# Folder of the Python environment, which is not part of the code.
_FILE: Final = Path(sys.prefix) / "admit-operations.json"
_HELP_WIDTH: Final = 200
_SOURCES: Final = ("api", "nac", "pki", "cli")


class Operations(Mapping[str, Operation]):
    """Operations by name. Access to a name builds the operation, because a command needs only one operation."""

    def __init__(self, rows: Mapping[str, Any]) -> None:
        self._rows = rows

    @classmethod
    def of(cls, document: Document) -> "Operations":
        return cls({name: asdict(each) for name, each in read_operations(document).items()})

    def __getitem__(self, name: str) -> Operation:
        row = self._rows[name]
        values = tuple(OperationInput(**value | {"choices": tuple(value["choices"])}) for value in row["values"])
        return Operation(**row | {"values": values})

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)


class Catalog:
    def __init__(self, content: Mapping[str, Any]) -> None:
        self.operations = Operations(content["operations"])
        self._nouns: Mapping[str, Any] = content["nouns"]
        # Short command by operationId.
        self.commands: Mapping[str, str] = content["commands"]
        # Short help of the commands in cli.commands, by name, and by noun and verb.
        self.modules: Mapping[str, str] = content["modules"]
        self._module_verbs: Mapping[str, Mapping[str, str]] = content["module_verbs"]

    def nouns(self) -> dict[str, str]:
        """Return the help text of each noun.

        A noun of several words, such as `retention hold`, is a command group within the group of the first word.
        """
        return {name: noun["help"] for name, noun in self._nouns.items()}

    def verbs(self, noun: str) -> dict[str, str]:
        """Return the first line of each verb's help text."""
        commands = self._nouns[noun]["commands"].items() if noun in self._nouns else ()
        found = {verb: row["help"] or self.operations[row["operations"][0]].help for verb, row in commands}
        below = {
            name.removeprefix(f"{noun} "): text for name, text in self.nouns().items() if name.startswith(f"{noun} ")
        }
        lines = found | below | dict(self._module_verbs.get(noun, {}))
        return {verb: text.split("\n")[0] for verb, text in sorted(lines.items())}

    def has_alias(self, noun: str, verb: str) -> bool:
        return noun in self._nouns and verb in self._nouns[noun]["commands"]

    def usage(self, operation: str) -> str:
        """Return the first short command of the operation, with arguments in capitals; "" without a short command."""
        for noun, row in self._nouns.items():
            for verb, each in row["commands"].items():
                if operation in each["operations"]:
                    command = noun if verb == COMMAND else f"{noun} {verb}"
                    return " ".join((command, *self._list_arguments(self.alias(noun, verb), operation)))
        return ""

    def _list_arguments(self, alias: Alias, operation: str) -> Iterator[str]:
        for argument in alias.arguments:
            if not argument.optional:
                yield "FILE" if argument.is_file else _format_argument(argument.field)
        if alias.body_file:
            yield _format_argument(alias.body_file)
        placed = {argument.field for argument in alias.arguments} | alias.options.keys() | {"tenant", "msp"}
        for value in self.operations[operation].values:
            lookup = alias.lookups.get(value.name)
            # A field whose value is the only item of a list needs no argument.
            if value.where == "path" and value.name not in placed and not (lookup and lookup.key == lookup.member):
                yield _format_argument(lookup.key if lookup else value.name)

    def alias(self, noun: str, verb: str) -> Alias:
        row = self._nouns[noun]["commands"][verb]
        lists = {name: tuple(row[name]) for name in ("operations", "columns", "files", "lists", "changes")}
        objects = {
            "options": {name: tuple(value) for name, value in row["options"].items()},
            "arguments": tuple(Argument(**each) for each in row["arguments"]),
            "lookups": {name: Lookup(**each) for name, each in row["lookups"].items()},
        }
        return Alias(**row | lists | objects)


@cache
def load_catalog() -> Catalog:
    key = _compute_key()
    try:
        content = json.loads(_FILE.read_bytes())
    except (OSError, ValueError):
        content = {}
    if content.get("key") != key:
        content = {"key": key, **_make_content()}
        # If this account cannot write to the folder of the Python environment, each command creates the catalog again.
        with suppress(OSError):
            write_private(_FILE, json.dumps(content), mode=0o644)
    return Catalog(content)


def _format_argument(name: str) -> str:
    return name.upper().replace("_", "-")


def _make_content() -> dict[str, Any]:
    # Imported here because they take seconds.
    from cli.openapi import description
    from cli.remote.aliases import read_nouns

    operations = {name: asdict(each) for name, each in read_operations(description()).items()}
    nouns = {name: asdict(noun) for name, noun in read_nouns(TABLE.read_text(encoding="utf-8")).items()}
    modules = {name: load_module(name) for name in list_modules()}
    groups = {name: group for module, each in modules.items() for name, group in _list_groups(module, each)}
    return {
        "operations": operations,
        "nouns": nouns,
        "commands": dict(_name_operations(nouns)),
        "modules": {name: each.get_short_help_str(_HELP_WIDTH) for name, each in modules.items()},
        "module_verbs": {
            name: {verb: each.get_short_help_str(_HELP_WIDTH) for verb, each in group.commands.items()}
            for name, group in groups.items()
        },
    }


def _name_operations(nouns: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Return the short command of each operationId."""
    for noun, row in nouns.items():
        for verb, alias in row["commands"].items():
            for name in alias["operations"]:
                first, *words = name.split("-")
                yield first + "".join(map(str.title, words)), noun if verb == COMMAND else f"{noun} {verb}"


def _list_groups(name: str, command: click.Command) -> Iterator[tuple[str, click.Group]]:
    """Yield the groups of a module, with the words that call the group."""
    if isinstance(command, click.Group) and name != "api":
        yield name, command
        for verb, each in command.commands.items():
            yield from _list_groups(f"{name} {verb}", each)


def list_modules() -> list[str]:
    """Return the names of the commands that are modules of cli.commands.

    The modules use files or processes of this machine.
    """
    names = (module.name for module in pkgutil.iter_modules(cli.commands.__path__))
    return sorted(name.replace("_", "-") for name in names if not name.startswith("_"))


def load_module(name: str) -> click.Command:
    """Import the command of a module. The import runs without garbage collection, which saves a tenth of the time."""
    gc.disable()
    try:
        command = importlib.import_module(f"cli.commands.{name.replace('-', '_')}").command
    finally:
        gc.freeze()
        gc.enable()
    assert isinstance(command, click.Command)
    return command


def _compute_key() -> str:
    """Return a hash of the code from which the catalog is created."""
    digest = hashlib.sha256()
    for source in _SOURCES:
        for path, status in sorted(_list_files(CHECKOUT / source)):
            digest.update(f"{path} {status.st_mtime_ns} {status.st_size}\n".encode())
    return digest.hexdigest()


def _list_files(folder: Path) -> Iterator[tuple[str, os.stat_result]]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                if entry.name != "__pycache__":
                    yield from _list_files(Path(entry.path))
            elif entry.name.endswith((".py", ".toml")):
                yield entry.path, entry.stat()
