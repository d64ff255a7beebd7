"""`./admit identity-source`: commands that read settings from files."""

import json
from collections.abc import Iterable
from typing import Any, TextIO

import click

from cli.errors import Refused, require_utf8
from cli.files import first_line
from cli.output import json_option, tenant_option
from cli.remote.commands import call_operation
from cli.remote.local_api import connect
from cli.remote.results import show_result

settings_file_option = click.option(
    "--file",
    "settings_file",
    type=click.File(encoding="utf-8"),
    help='File with the settings of the source as a JSON object, or "-" for standard input.',
)
settings_option = click.option(
    "--set",
    "pairs",
    multiple=True,
    metavar="NAME=VALUE",
    help="Setting of the source. VALUE is JSON or text; repeatable.",
)
secret_file_option = click.option(
    "--secret-file",
    type=click.File(encoding="utf-8"),
    help='File whose first line is the password of bind_dn or the client secret, or "-" for standard input.',
)
ca_file_option = click.option(
    "--ca-file",
    type=click.File(encoding="utf-8"),
    help="PEM file with the authority that issued the server's certificate.",
)
position_option = click.option(
    "--position", type=int, help="Position of the source in the query order, 1 to 1000 (default 100)."
)


@click.group()
def command() -> None:
    """Manage identity sources of a tenant: directories (ldap) and providers (oidc).

    Users that Admit stores for the tenant take precedence over users of identity sources. For the settings, see
    docs/how-to/identity-sources.md.
    """


def _settings(file: TextIO | None, pairs: Iterable[str], ca_file: TextIO | None) -> dict[str, Any]:
    """Return the settings of the file. Settings of --set override settings of the file."""
    settings: dict[str, Any] = {}
    if file is not None:
        try:
            settings = json.load(file)
        except ValueError as exc:
            raise Refused(f"Invalid JSON in {file.name}: {exc}.") from exc
        if not isinstance(settings, dict):
            raise Refused(f"{file.name} must hold a JSON object.")
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals:
            raise click.UsageError(f"Invalid --set {pair!r}. Use NAME=VALUE.")
        settings[name] = _value(value)
    if ca_file is not None:
        with require_utf8(ca_file.name):
            settings["ca_certificate"] = ca_file.read()
    return settings


def _value(text: str) -> object:
    try:
        return json.loads(text)
    except ValueError:
        return text


@command.command()
@click.argument("name")
@tenant_option
@click.option("--kind", type=click.Choice(("ldap", "oidc")), required=True)
@settings_file_option
@settings_option
@secret_file_option
@ca_file_option
@position_option
@json_option
def add(
    name: str,
    tenant: str,
    kind: str,
    settings_file: TextIO | None,
    pairs: tuple[str, ...],
    secret_file: TextIO | None,
    ca_file: TextIO | None,
    position: int | None,
    as_json: bool,
) -> None:
    """Create the identity source NAME."""
    source = call_operation(
        connect(),
        "create-identity-source",
        tenant=tenant,
        name=name,
        kind=kind,
        settings=_settings(settings_file, pairs, ca_file),
        secret=first_line(secret_file),
        position=position,
    )
    _show(source, as_json=as_json)


@command.command("set")
@click.argument("name")
@tenant_option
@settings_file_option
@settings_option
@secret_file_option
@ca_file_option
@position_option
@click.option("--enable/--disable", "enabled", default=None, help="Whether Admit queries the identity source.")
@json_option
def set_(
    name: str,
    tenant: str,
    settings_file: TextIO | None,
    pairs: tuple[str, ...],
    secret_file: TextIO | None,
    ca_file: TextIO | None,
    position: int | None,
    enabled: bool | None,
    as_json: bool,
) -> None:
    """Update the identity source NAME; --set NAME=null restores a setting's default."""
    source = call_operation(
        connect(),
        "update-identity-source",
        tenant=tenant,
        source=name,
        settings=_settings(settings_file, pairs, ca_file) or None,
        secret=first_line(secret_file),
        position=position,
        enabled=enabled,
    )
    _show(source, as_json=as_json)


def _show(source: dict[str, Any], *, as_json: bool) -> None:
    settings: dict[str, Any] = source["settings"]
    if not as_json and "ca_certificate" in settings:
        settings["ca_certificate"] = "(PEM)"
    show_result(source, as_json=as_json)
