"""The command `./admit`.

Loads only the called command, from the operations of the API or from a module of cli.commands.
"""

from collections.abc import Mapping, Sequence

import click

from cli.errors import report_errors
from cli.remote.aliases import COMMAND, list_nouns
from cli.remote.catalog import list_modules, load_catalog, load_module
from cli.remote.commands import make_short_command
from cli.remote.local_api import connect

# Short form of each verb of the API that `./admit` accepts for a noun, next to the verb itself.
SHORT_FORMS = {"create": "add", "delete": "remove", "get": "show", "update": "set"}
_SYNONYMS = SHORT_FORMS | {short: verb for verb, short in SHORT_FORMS.items()}


class _ListedGroup(click.Group):
    """Group that lists commands without loading the commands."""

    def short_helps(self) -> Mapping[str, str]:
        raise NotImplementedError

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(self.short_helps())

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, text in sorted(self.short_helps().items())])


class NounGroup(_ListedGroup):
    """Commands of a noun: short commands, groups, and the commands of the noun's module.

    A verb and its short form call the same command: `endpoint create` is `endpoint add`. Help lists one of the two.
    """

    def __init__(self, noun: str, *, has_module: bool) -> None:
        catalog = load_catalog()
        super().__init__(noun.split()[-1], help=catalog.nouns()[noun])
        self._noun = noun
        self._has_module = has_module

    def short_helps(self) -> Mapping[str, str]:
        return load_catalog().verbs(self._noun)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        found = self._find(ctx, cmd_name)
        if found is None and cmd_name in _SYNONYMS:
            found = self._find(ctx, _SYNONYMS[cmd_name])
        return found

    def _find(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        catalog = load_catalog()
        if f"{self._noun} {cmd_name}" in catalog.nouns():
            return NounGroup(f"{self._noun} {cmd_name}", has_module=self._has_module)
        if catalog.has_alias(self._noun, cmd_name):
            return _make_alias_command(self._noun, cmd_name)
        return find_in_module(ctx, [*self._noun.split(), cmd_name]) if self._has_module else None


def find_in_module(ctx: click.Context, words: Sequence[str]) -> click.Command | None:
    """Return the command for `words`. The first word names the module."""
    found: click.Command | None = load_module(words[0])
    for word in words[1:]:
        found = found.get_command(ctx, word) if isinstance(found, click.Group) else None
    return found


def _make_alias_command(noun: str, verb: str) -> click.Command:
    catalog = load_catalog()
    return make_short_command(verb, catalog.alias(noun, verb), catalog.operations, connect)


class _Commands(_ListedGroup):
    def short_helps(self) -> Mapping[str, str]:
        catalog = load_catalog()
        return {name: text for name, text in (dict(catalog.modules) | catalog.nouns()).items() if " " not in name}

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        has_module = cmd_name in list_modules()
        if cmd_name in list_nouns():
            is_command = load_catalog().has_alias(cmd_name, COMMAND)
            return _make_alias_command(cmd_name, COMMAND) if is_command else NounGroup(cmd_name, has_module=has_module)
        # A noun without short commands needs only the noun's module, not the catalog.
        return load_module(cmd_name) if has_module else None

    def invoke(self, ctx: click.Context) -> object:
        # The words after the command's name. click parses the options later.
        with report_errors(as_json="--json" in ctx.args):
            return super().invoke(ctx)


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
def admit() -> None:
    """Admit: multi-tenant network access control on FreeRADIUS.

    Exit status: 0 for success or "yes", 1 for failure or "no", 2 for invalid input. See docs/reference/command-line.md.
    """
