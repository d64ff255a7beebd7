"""`./admit endpoint`."""

from collections.abc import Sequence
from datetime import datetime
from itertools import chain, islice
from typing import Any

import click

from cli.command_context import CommandContext
from cli.commands._endpoint_files import export, import_
from cli.commands._endpoint_inbox import classify, inbox
from cli.commands._endpoint_posture import posture
from cli.commands._endpoint_rows import details, filter_options, for_people, row, rows, take_filter
from cli.commands._psk import passphrase_meant, psk_options
from cli.output import json_option, show_list, show_one, tenant_option
from cli.time_options import until_option
from cli.verbs import add_verb
from nac.inventory.endpoints import passphrases
from nac.inventory.endpoints import service as endpoints
from nac.inventory.endpoints.service import UNSET, Unset

_KNOWN = ("active", "blocked")
_STATUSES = (*_KNOWN, "discovered", "ignored")


@click.group()
def command() -> None:
    """Manage endpoints of a tenant: devices, identified by MAC address."""


for each in (export, import_, classify, inbox, posture):
    command.add_command(each)


def _attributes(texts: Sequence[str]) -> dict[str, str | None]:
    pairs = [text.partition("=") for text in texts]
    if wrong := [name for name, mark, _ in pairs if not mark]:
        raise click.UsageError(f"Invalid attribute {wrong[0]!r}. Use KEY=VALUE.")
    return {name: text or None for name, _, text in pairs}


@command.command()
@click.argument("mac")
@tenant_option
@click.option("--name", default="", help="Display name.")
@click.option("--group", "groups", multiple=True, help="Group of the endpoint; repeatable.")
@click.option("--owner", default="", help="Owner of the endpoint.")
@click.option("--notes", default="", help="Notes about the endpoint.")
@click.option("--attribute", "attributes", multiple=True, metavar="KEY=VALUE", help="Attribute; repeatable.")
@until_option("End of the approval (UTC).")
@click.option("--allow-random", is_flag=True, help="Accept a random MAC address (IEEE 802c).")
@json_option
def add(
    mac: str,
    tenant: str,
    name: str,
    groups: tuple[str, ...],
    owner: str,
    notes: str,
    attributes: tuple[str, ...],
    valid_until: datetime | None,
    allow_random: bool,
    as_json: bool,
) -> None:
    """Create or approve the endpoint MAC."""
    domain = CommandContext()
    with domain.change(tenant) as (session, tenant_id):
        endpoint = endpoints.create_endpoint(
            session,
            actor=domain.actor,
            tenant_id=tenant_id,
            mac=mac,
            name=name,
            groups=groups,
            owner=owner,
            notes=notes,
            attributes={key: text or "" for key, text in _attributes(attributes).items()},
            valid_until=valid_until,
            allow_random=allow_random,
        )
        data = row(session, tenant_id, endpoint)
    show_one(data, as_json=as_json)


@command.command("set")
@click.argument("mac")
@tenant_option
@click.option("--name", help="Display name.")
@click.option("--owner", help="Owner of the endpoint.")
@click.option("--notes", help="Notes about the endpoint.")
@click.option("--group", "groups", multiple=True, help="Group that replaces the current groups; repeatable.")
@click.option("--no-groups", is_flag=True, help="Remove the endpoint from all groups.")
@until_option("End of the approval (UTC).")
@click.option("--no-until", is_flag=True, help="Remove the end of the approval.")
@click.option(
    "--attribute",
    "attributes",
    multiple=True,
    metavar="KEY=VALUE",
    help="Attribute; an empty VALUE removes it; repeatable.",
)
@click.option("--profile", help='Device profile that overrides the detected one; "" for the detected one.')
@psk_options
@json_option
def set_(
    mac: str,
    tenant: str,
    name: str | None,
    owner: str | None,
    notes: str | None,
    groups: tuple[str, ...],
    no_groups: bool,
    valid_until: datetime | None,
    no_until: bool,
    attributes: tuple[str, ...],
    profile: str | None,
    psk: str | None,
    generate_psk: bool,
    no_psk: bool,
    as_json: bool,
) -> None:
    """Update the endpoint MAC. Omitted settings do not change."""
    passphrase = passphrase_meant(psk, generate_psk=generate_psk, no_psk=no_psk)
    until = None if no_until else valid_until or UNSET
    domain = CommandContext()
    with domain.change(tenant) as (session, tenant_id):
        who: dict[str, Any] = {"actor": domain.actor, "tenant_id": tenant_id, "mac": mac}
        endpoint = endpoints.update_endpoint(
            session,
            **who,
            name=name,
            owner=owner,
            notes=notes,
            groups=groups if groups or no_groups else None,
            valid_until=until,
            attributes=_attributes(attributes) if attributes else None,
            profile=profile,
        )
        if not isinstance(passphrase, Unset):
            passphrases.update_endpoint_psk(session, **who, passphrase=passphrase, seal=domain.sealer.seal)
        data = dict(row(session, tenant_id, endpoint))
    if generate_psk:
        data["psk"] = passphrase
    show_one(data, as_json=as_json)


add_verb(command, "remove", endpoints.delete_endpoint, key="mac", help="Delete the endpoint MAC.")
add_verb(
    command,
    "block",
    endpoints.block_endpoint,
    key="mac",
    help="Block the endpoint MAC, so that it is rejected by any policy.",
    row=row,
)
add_verb(
    command,
    "unblock",
    endpoints.unblock_endpoint,
    key="mac",
    help="Unblock the endpoint MAC, so that policies decide about it again.",
    row=row,
)


@command.command("set-groups")
@click.argument("mac")
@click.argument("groups", nargs=-1)
@tenant_option
@json_option
def set_groups(mac: str, groups: tuple[str, ...], tenant: str, as_json: bool) -> None:
    """Replace the groups of the endpoint MAC with GROUPS."""
    domain = CommandContext()
    with domain.change(tenant) as (session, tenant_id):
        endpoint = endpoints.update_groups(session, actor=domain.actor, tenant_id=tenant_id, mac=mac, groups=groups)
        data = row(session, tenant_id, endpoint)
    show_one(data, as_json=as_json)


@command.command()
@click.argument("mac")
@tenant_option
@json_option
def show(mac: str, tenant: str, as_json: bool) -> None:
    """Show all data about the endpoint MAC, with the reasons for its device profile."""
    with CommandContext().tenant(tenant) as (session, tenant_id):
        data = details(session, tenant_id, mac)
    show_one(data if as_json else for_people(data), as_json=as_json)


@command.command("list")
@tenant_option
@click.option(
    "--status",
    "statuses",
    multiple=True,
    type=click.Choice(_STATUSES),
    help="Status of the endpoints (default active and blocked); repeatable.",
)
@click.option("--group", default="", help="Group of the endpoints.")
@filter_options
@click.option("--after", default="", metavar="MAC", help="Start after this address.")
@click.option("--limit", type=click.IntRange(min=1), help="Maximum number of endpoints (default all).")
@json_option
def list_(
    tenant: str,
    statuses: tuple[str, ...],
    after: str,
    limit: int | None,
    as_json: bool,
    **options: Any,  # noqa: ANN401 -- click's
) -> None:
    """List endpoints by MAC address."""
    criteria = take_filter(options, statuses=statuses or _KNOWN)
    with CommandContext().tenant(tenant) as (session, tenant_id):
        pages = endpoints.ORDERS.pages(
            lambda span: endpoints.list_endpoints(session, tenant_id=tenant_id, wanted=criteria, span=span),
            after=endpoints.parse_after_key(after),
        )
        endpoint_rows = rows(session, tenant_id, list(islice(chain.from_iterable(pages), limit)))
    show_list(endpoint_rows, as_json=as_json)
