"""`./admit watch`."""

from collections.abc import Iterator
from contextlib import closing, suppress
from typing import TYPE_CHECKING
from uuid import UUID

import click

from cli import environment
from cli.errors import Refused
from cli.output import json_option, tenant_option
from cli.remote.client import ApiClient
from cli.remote.commands import call_operation, list_items
from cli.remote.local_api import connect
from nac.kit.ids import TenantId
from nac.kit.mac import display_mac
from nac.kit.validation import require_mac

if TYPE_CHECKING:
    from nac.logs.events.live_stream import LiveEvent, StreamNotice

# Kinds of live events that agents send.
KINDS = ("authentication", "accounting", "coa", "alarm", "endpoint", "certificate")


@click.command()
@tenant_option
@click.option("--kind", "kinds", type=click.Choice(KINDS), multiple=True, help="Kind of events to show; repeatable.")
@click.option("--mac", default="", help="MAC address of the device, in any notation.")
@click.option("--user", metavar="NAME", default="", help="User name or certificate name in the events.")
@click.option("--nas", metavar="NAME", default="", help="Name, NAS-Identifier or address of the NAS.")
@click.option("--site", metavar="SLUG", default="", help="Slug of the site.")
@click.option("--rejects", is_flag=True, help="Show only rejects.")
@json_option
def command(
    tenant: str, kinds: tuple[str, ...], mac: str, user: str, nas: str, site: str, rejects: bool, as_json: bool
) -> None:
    """Show a tenant's live events until Ctrl-C.

    With --json, each line is an event (docs/reference/events.md). Messages about the connection go to standard error.
    For past events, see ./admit decisions and ./admit session list.
    """
    # Imported here because it loads the libraries for Redis and events.
    from nac.logs.events.live_stream import EventFilter, listen

    settings = environment.load_into_process()
    if not settings.redis_url:
        raise Refused("Redis is not configured.", remedy="Set ADMIT_REDIS_URL.")
    api = connect()
    tenant_id = TenantId(UUID(call_operation(api, "get-tenant", tenant=tenant)["id"]))
    event_filter = EventFilter(
        kinds=frozenset(kinds),
        rejects=rejects,
        mac=_format_mac(mac) if mac else "",
        user=user,
        nas=_list_nas_names(api, tenant, nas) if nas else frozenset(),
        site=call_operation(api, "get-site", tenant=tenant, site=site)["id"] if site else "",
    )
    with suppress(KeyboardInterrupt), closing(listen(settings.redis_url, [tenant_id], event_filter)) as heard:
        _show(heard, tenant, as_json=as_json)


def _format_mac(text: str) -> str:
    """Return the MAC address in the format of events (RFC 7042 2.1)."""
    return display_mac(require_mac(text)).upper().replace(":", "-")


def _list_nas_names(api: ApiClient, tenant: str, nas: str) -> frozenset[str]:
    """Return the names and ids that identify the NAS in events. Several NASes can have the same name."""
    registered = list_items(api, "list-nases", tenant=tenant)
    return frozenset([nas.lower(), *(each["id"] for each in registered if each["name"].lower() == nas.lower())])


def _show(heard: "Iterator[LiveEvent | StreamNotice | None]", tenant: str, *, as_json: bool) -> None:
    from nac.logs.events.live_stream import LiveEvent, StreamNotice

    for each in heard:
        match each:
            case LiveEvent(event=event, line=line):
                clock = event.timestamp.partition("T")[2][:12]
                click.echo(line if as_json else f"{clock}  {event.message}")
            case StreamNotice():
                click.echo(_sentence(each, tenant), err=True)


def _sentence(notice: "StreamNotice", tenant: str) -> str:
    match notice.kind:
        case "listening":
            return f"Listening to {tenant}."
        case "silent":
            return f"No events for {tenant}: the tenant's cell is down or has no ADMIT_REDIS_URL. See ./admit status."
        case "lost":
            return "Lost the connection to Redis. Retrying."
        case "back":
            return "Reconnected to Redis."
        case "left-out" if notice.count is not None:
            return f"{notice.count} events were skipped because too many arrived."
        case _:
            return "Events may be missing because the connection or the cell was down."
