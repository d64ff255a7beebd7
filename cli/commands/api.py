"""`./admit api`."""

import os
from pathlib import Path

import click

from cli import environment
from cli.remote.client import ApiClient
from cli.remote.commands import make_command
from cli.remote.description import Operation, Operations
from nac.kit.errors import InvalidInput

_URL, _TOKEN = "ADMIT_API_URL", "ADMIT_API_TOKEN"


class _Operations(click.Group):
    """Commands built from the API's OpenAPI document."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(_operations(ctx))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        operation = _operations(ctx).get(cmd_name)
        return None if operation is None else make_command(operation, _api(ctx))

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List commands by noun."""
        known = _operations(ctx)
        for noun in sorted({operation.noun for operation in known.values()}):
            with formatter.section(noun or "other"):
                rows = [(name, _first_line(each)) for name, each in sorted(known.items()) if each.noun == noun]
                formatter.write_dl(rows)


def _keep(ctx: click.Context, parameter: click.Parameter, value: object) -> None:
    """Store a value for the list of commands, which click builds before it calls the group."""
    ctx.meta[f"admit.api.{parameter.name}"] = value


@click.group(cls=_Operations)
@click.option(
    "--url",
    help=f"URL of the API (default {_URL}, then this machine's API).",
    is_eager=True,
    expose_value=False,
    callback=_keep,
)
@click.option(
    "--token-file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help=f"File with the token (default: the variable {_TOKEN}).",
    is_eager=True,
    expose_value=False,
    callback=_keep,
)
def command() -> None:
    """Call any operation of the API, from any machine, with a token (`./admit token make`)."""


def _first_line(operation: Operation) -> str:
    return operation.help.split("\n")[0] or f"{operation.method} {operation.path}"


def _operations(ctx: click.Context) -> Operations:
    known: Operations | None = ctx.meta.get("admit.operations")
    if known is None:
        known = ctx.meta["admit.operations"] = Operations(_api(ctx).description())
    return known


def _api(ctx: click.Context) -> ApiClient:
    url = ctx.meta.get("admit.api.url") or os.environ.get(_URL) or _here()
    if not url.startswith(("http://", "https://")):
        raise InvalidInput(
            f"Invalid URL {url!r}.", place="--url", remedy="Use a URL such as https://admit.example.com."
        )
    path: Path | None = ctx.meta.get("admit.api.token_file")
    return ApiClient(
        url.rstrip("/"), path.read_text("ascii", "replace").strip() if path else os.environ.get(_TOKEN, "")
    )


def _here() -> str:
    return environment.load_into_process().api_url
