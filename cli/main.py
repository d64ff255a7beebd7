"""The command group. Imports only the module of the called command, so that `status` is fast."""

import gc
import importlib
import pkgutil
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

import click

import cli.commands
from cli.errors import report_errors


class LazyGroup(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_command_names())

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _command_names():
            return None
        with _without_garbage_collection():
            module = importlib.import_module(f"cli.commands.{cmd_name.replace('-', '_')}")
        command = getattr(module, "command", None)
        # Helper modules beside the commands have no `command`.
        return command if isinstance(command, click.Command) else None

    def invoke(self, ctx: click.Context) -> object:
        # The text after the command's name; click parses its options later.
        with report_errors(as_json="--json" in ctx.args):
            return super().invoke(ctx)


@cache
def _command_names() -> tuple[str, ...]:
    modules = (module.name for module in pkgutil.iter_modules(cli.commands.__path__))
    return tuple(sorted(name.replace("_", "-") for name in modules if not name.startswith("_")))


@contextmanager
def _without_garbage_collection() -> Iterator[None]:
    """Disable garbage collection during imports, which saves a tenth of a command's start."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
def admit() -> None:
    """Admit: multi-tenant network access control on FreeRADIUS.

    Exit status: 0 done, or yes; 1 not done, or no; 2 invalid input. See docs/reference/command-line.md.
    """
