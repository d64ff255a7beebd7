"""`./admit api`."""

from pathlib import Path

import click

from cli.remote.catalog import Operations, load_catalog
from cli.remote.client import ApiClient
from cli.remote.commands import make_raw_command
from cli.remote.description import Operation
from cli.remote.local_api import TOKEN, URL, connect


class _OperationCommands(click.Group):
    """Commands for the operations of this checkout's API, or of the API at --url or ADMIT_API_URL."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(_operations(ctx))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        found = _operations(ctx).get(cmd_name)
        return None if found is None else make_raw_command(found, lambda: _connect(ctx))

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        known = _operations(ctx)
        for noun in sorted({operation.noun for operation in known.values()}):
            with formatter.section(noun or "other"):
                rows = [(name, _first_line(each)) for name, each in sorted(known.items()) if each.noun == noun]
                formatter.write_dl(rows)


def _keep(ctx: click.Context, parameter: click.Parameter, value: object) -> None:
    """Store the value of an option of `./admit api`, because click lists the commands before it calls the group."""
    ctx.meta[f"admit.api.{parameter.name}"] = value


@click.group(cls=_OperationCommands)
@click.option(
    "--url",
    envvar=URL,
    help=f"URL of the API (default {URL}, then this machine's API).",
    is_eager=True,
    expose_value=False,
    callback=_keep,
)
@click.option(
    "--token-file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help=f"File with the token (default: the variable {TOKEN}, then the operator of this machine).",
    is_eager=True,
    expose_value=False,
    callback=_keep,
)
def command() -> None:
    """Call any operation of the API, from any machine, with a token (`./admit token create`)."""


def _first_line(operation: Operation) -> str:
    return operation.help.split("\n")[0] or f"{operation.method} {operation.path}"


def _operations(ctx: click.Context) -> Operations:
    known: Operations | None = ctx.meta.get("admit.operations")
    if known is None:
        is_elsewhere = bool(ctx.meta.get("admit.api.url"))
        known = Operations.of(_connect(ctx).fetch_description()) if is_elsewhere else load_catalog().operations
        ctx.meta["admit.operations"] = known
    return known


def _connect(ctx: click.Context) -> ApiClient:
    return connect(ctx.meta.get("admit.api.url"), ctx.meta.get("admit.api.token_file"))
