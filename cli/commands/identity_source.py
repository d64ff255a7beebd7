"""`./admit identity-source`."""

import asyncio
import json
from collections.abc import Iterable
from typing import Any, TextIO

import click
from sqlalchemy.orm import Session

from cli.command_context import CommandContext
from cli.commands.user import first_line
from cli.errors import Refused, require_utf8
from cli.operation_commands import render_advice
from cli.output import Row, escape_unprintable, json_option, show_list, show_one, tenant_option
from cli.verbs import add_verb
from nac.engine.reasons import get_reason
from nac.inventory.identity_sources import service as sources
from nac.inventory.identity_sources.settings import SETTINGS_BY_KIND
from nac.inventory.identity_sources.source_probe import prepare_probe, run_probe
from nac.inventory.identity_sources.verifier_messages import VerificationResult
from nac.kit.ids import TenantId
from nac.models import IdentitySource

settings_file_option = click.option(
    "--file",
    "settings_file",
    type=click.File(encoding="utf-8"),
    help='File with settings as a JSON object; "-": standard input.',
)
settings_option = click.option(
    "--set", "pairs", multiple=True, metavar="NAME=VALUE", help="Setting; VALUE is JSON or text; repeatable."
)
secret_file_option = click.option(
    "--secret-file",
    type=click.File(encoding="utf-8"),
    help='File whose first line is the password of bind_dn or the client secret; "-": standard input.',
)
ca_file_option = click.option(
    "--ca-file", type=click.File(encoding="utf-8"), help="PEM file with the authority of the server's certificate."
)
position_option = click.option("--position", type=int, help="Order of queries, 1 to 1000 (default 100).")


@click.group()
def command() -> None:
    """Manage identity sources of a tenant: directories (ldap) and providers (oidc).

    A tenant's own users take precedence. For the settings, see docs/how-to/identity-sources.md.
    """


def _row(session: Session, tenant_id: TenantId, source: IdentitySource) -> Row:
    row = sources.describe(source)
    settings = {name: "(PEM)" if name == "ca_certificate" else value for name, value in row.pop("settings").items()}
    return {**row, "settings": settings}


def _settings(file: TextIO | None, pairs: Iterable[str], ca_file: TextIO | None) -> dict[str, Any]:
    """Settings of the file, overridden by --set."""
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
@click.option("--kind", type=click.Choice(sorted(SETTINGS_BY_KIND)), required=True)
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
    settings = _settings(settings_file, pairs, ca_file)
    secret = first_line(secret_file)
    domain = CommandContext()
    with domain.change(tenant) as (session, tenant_id):
        source = sources.create_source(
            session,
            actor=domain.actor,
            tenant_id=tenant_id,
            name=name,
            kind=kind,
            settings=settings,
            secret=secret,
            seal=domain.sealer.seal,
            reach=domain.settings.outbound_reach,
            position=sources.DEFAULT_POSITION if position is None else position,
        )
        row = _row(session, tenant_id, source)
    show_one(row, as_json=as_json)


@command.command("set")
@click.argument("name")
@tenant_option
@settings_file_option
@settings_option
@secret_file_option
@ca_file_option
@position_option
@click.option("--enable/--disable", "enabled", default=None, help="Whether Admit queries the source.")
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
    settings = _settings(settings_file, pairs, ca_file)
    secret = first_line(secret_file)
    domain = CommandContext()
    with domain.change(tenant) as (session, tenant_id):
        source = sources.update_source(
            session,
            actor=domain.actor,
            tenant_id=tenant_id,
            name=name,
            seal=domain.sealer.seal,
            reach=domain.settings.outbound_reach,
            settings=settings,
            secret=secret,
            position=position,
            enabled=enabled,
        )
        row = _row(session, tenant_id, source)
    show_one(row, as_json=as_json)


add_verb(command, "remove", sources.delete_source, key="name", help="Delete the identity source NAME.")


@command.command("list")
@tenant_option
@json_option
def list_(tenant: str, as_json: bool) -> None:
    """List identity sources in the order of queries."""
    with CommandContext().tenant(tenant) as (session, tenant_id):
        rows = [_row(session, tenant_id, source) for source in sources.list_sources(session, tenant_id=tenant_id)]
    if not as_json:
        rows = [{name: value for name, value in row.items() if name != "settings"} for row in rows]
    show_list(rows, as_json=as_json)


@command.command()
@click.argument("name")
@tenant_option
@click.option("--user", required=True, help="User name that the source should know.")
@click.option(
    "--password-file",
    type=click.File(encoding="utf-8"),
    help='File whose first line is the user\'s password; "-": standard input.',
)
@json_option
def test(name: str, tenant: str, user: str, password_file: TextIO | None, as_json: bool) -> None:
    """Test the identity source NAME with a user and show each step. Exit status 1 if a step fails.

    The test runs on this machine. Its network path to the source can differ from the cell's.
    """
    password = first_line(password_file)
    if password is None:
        password = str(click.prompt("Password", hide_input=True))
    domain = CommandContext()
    with domain.tenant(tenant) as (session, tenant_id):
        trial = prepare_probe(
            session, actor=domain.actor, tenant_id=tenant_id, name=name, user=user, unseal=domain.sealer.open
        )
    probe = run_probe(trial, reach=domain.settings.outbound_reach, user=user, password=password.encode())
    answer, steps = asyncio.run(probe)
    _show_answer(answer, steps, as_json=as_json)
    if not answer.verified:
        raise click.exceptions.Exit(1)


def _show_answer(answer: VerificationResult, steps: list[str], *, as_json: bool) -> None:
    reason = get_reason(answer.reason) if answer.reason else None
    row: Row = {
        "verified": answer.verified,
        "reason": answer.reason,
        "detail": answer.detail,
        "name": answer.name,
        "groups": answer.groups,
        "attributes": answer.attributes,
        "advice": render_advice(reason.advice) if reason else "",
    }
    if as_json:
        show_one({**row, "steps": steps}, as_json=True)
        return
    for step in steps:
        click.echo(f"  {escape_unprintable(step)}")
    show_one(row, as_json=False)
