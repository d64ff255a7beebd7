"""`./admit endpoint posture`."""

import re
from datetime import timedelta

import click

from cli.command_context import CommandContext
from cli.commands._endpoint_rows import posture_rows
from cli.output import json_option, show_one, tenant_option
from cli.time_options import DurationType
from nac.inventory.endpoints import posture as service
from nac.kit.mac import display_mac

_WHOLE = re.compile(r"-?[0-9]{1,16}")
_WORDS = {"true": True, "false": False, "": None}


@click.group()
def posture() -> None:
    """Posture of endpoints, from device management or another system."""


@posture.command("set")
@click.argument("mac")
@click.argument("values", nargs=-1, required=True, metavar="NAME=VALUE...")
@tenant_option
@click.option("--source", default="cli", show_default=True, help="Name of the reporting system.")
@click.option(
    "--lifetime",
    type=DurationType(),
    default="1d",
    show_default=True,
    help="Lifetime of the values, such as 90s, 15m, 1h or 2d.",
)
@json_option
def set_(mac: str, values: tuple[str, ...], tenant: str, source: str, lifetime: timedelta, as_json: bool) -> None:
    """Set posture values of the endpoint MAC, such as mdm.compliant=true. An empty VALUE removes one.

    true, false and whole numbers keep their type. Other values are text.
    """
    parsed = {}
    for each in values:
        name, mark, text = each.partition("=")
        if not mark:
            raise click.UsageError(f"Invalid value {each!r}. Use NAME=VALUE.")
        parsed[name] = _WORDS[text] if text in _WORDS else int(text) if _WHOLE.fullmatch(text) else text
    domain = CommandContext()
    with domain.change(tenant) as (session, tenant_id):
        endpoint = service.update_posture(
            session, actor=domain.actor, tenant_id=tenant_id, mac=mac, values=parsed, source=source, lifetime=lifetime
        )
    mac = display_mac(endpoint.mac)
    row = {"mac": mac, "posture": endpoint.posture} if as_json else {"mac": mac, **posture_rows(endpoint.posture)}
    show_one(row, as_json=as_json)
