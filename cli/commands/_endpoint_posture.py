"""`./admit endpoint posture`."""

import re
from datetime import timedelta

import click

from cli.commands._endpoint_rows import posture_rows
from cli.domain import Domain
from cli.moments import Lifetime
from cli.output import json_option, show_one, tenant_option
from nac.endpoints import posture as service
from nac.mac import display_mac

_WHOLE = re.compile(r"-?[0-9]{1,16}")
_WORDS = {"true": True, "false": False, "": None}


@click.group()
def posture() -> None:
    """What a device management or another source says of endpoints."""


@posture.command("set")
@click.argument("mac")
@click.argument("values", nargs=-1, required=True, metavar="NAME=VALUE...")
@tenant_option
@click.option("--source", default="cli", show_default=True, help="Who says so.")
@click.option(
    "--lifetime", type=Lifetime(), default="1d", show_default=True, help="How long it holds: 90s, 15m, 1h, 2d."
)
@json_option
def set_(mac: str, values: tuple[str, ...], tenant: str, source: str, lifetime: timedelta, as_json: bool) -> None:
    """Tell of the endpoint MAC, such as mdm.compliant=true; an empty VALUE takes one away.

    true, false and whole numbers are what they look like, everything else is text.
    """
    told = {}
    for each in values:
        name, mark, text = each.partition("=")
        if not mark:
            raise click.UsageError(f"{each!r} is not NAME=VALUE.")
        told[name] = _WORDS[text] if text in _WORDS else int(text) if _WHOLE.fullmatch(text) else text
    domain = Domain()
    with domain.change(tenant) as (session, tenant_id):
        endpoint = service.update_posture(
            session, actor=domain.actor, tenant_id=tenant_id, mac=mac, values=told, source=source, lifetime=lifetime
        )
    mac = display_mac(endpoint.mac)
    row = {"mac": mac, "posture": endpoint.posture} if as_json else {"mac": mac, **posture_rows(endpoint.posture)}
    show_one(row, as_json=as_json)
