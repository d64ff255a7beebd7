"""`./admit endpoint-group`."""

import json
from pathlib import Path
from typing import Any

import click

from cli.command_context import CommandContext
from cli.commands._psk import passphrase_meant, psk_options
from cli.group_command import group_command
from cli.output import json_option, show_list, show_one, tenant_option
from nac.engine import PolicyErrors, parse_policy_text
from nac.inventory.endpoints import passphrases
from nac.inventory.endpoints.group_rules import update_group_rule
from nac.inventory.endpoints.rule_conditions import InvalidRule
from nac.inventory.endpoints.service import Unset
from nac.inventory.groups import ENDPOINT_GROUPS
from nac.models import EndpointGroup

command = group_command(ENDPOINT_GROUPS, members="endpoints")


def _row(group: EndpointGroup) -> dict[str, Any]:
    return {
        "name": group.name,
        "id": group.id,
        "rule": json.dumps(group.rule) if group.rule is not None else "",
        "psk": group.psk_sealed is not None,
    }


@command.command("set")
@click.argument("name")
@tenant_option
@click.option(
    "--rule",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="File with the condition that selects the members (JSON).",
)
@click.option("--no-rule", is_flag=True, help="Remove the rule and the members that it selected.")
@psk_options
@json_option
def set_(
    name: str,
    tenant: str,
    rule: Path | None,
    no_rule: bool,
    psk: str | None,
    generate_psk: bool,
    no_psk: bool,
    as_json: bool,
) -> None:
    """Update the rule or the shared passphrase of the group NAME."""
    if rule and no_rule:
        raise click.UsageError("Use only one of --rule and --no-rule.")
    passphrase = passphrase_meant(psk, generate_psk=generate_psk, no_psk=no_psk)
    condition = _read(rule) if rule else None
    domain = CommandContext()
    with domain.change(tenant) as (session, tenant_id):
        who: dict[str, Any] = {"actor": domain.actor, "tenant_id": tenant_id, "name": name}
        if rule or no_rule:
            update_group_rule(session, **who, rule=condition)
        if not isinstance(passphrase, Unset):
            passphrases.update_group_psk(session, **who, passphrase=passphrase, seal=domain.sealer.seal)
        row = _row(ENDPOINT_GROUPS.require(session, tenant_id=tenant_id, name=name))
    if generate_psk:
        row["psk"] = passphrase
    show_one(row, as_json=as_json)


@command.command("list")
@tenant_option
@json_option
def list_(tenant: str, as_json: bool) -> None:
    """List groups."""
    with CommandContext().tenant(tenant) as (session, tenant_id):
        rows = [_row(group) for group in ENDPOINT_GROUPS.list_all(session, tenant_id=tenant_id)]
    show_list(rows, as_json=as_json)


def _read(file: Path) -> object:
    try:
        return parse_policy_text(file.read_bytes())
    except PolicyErrors as errors:
        raise InvalidRule(errors.mistakes) from errors
