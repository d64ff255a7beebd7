"""`./admit watch`."""

from collections.abc import Iterator, Sequence
from contextlib import closing, suppress

import click

from cli.command_context import CommandContext
from cli.errors import Refused
from cli.output import json_option, tenant_option
from nac.kit.validation import require_mac
from nac.logs.events import event_values
from nac.logs.events.live_stream import EventFilter, LiveEvent, StreamNotice, listen
from nac.models import Nas
from nac.tenancy import sites
from nac.tenancy.nases import service as nases

# Kinds of live events that agents send.
KINDS = ("authentication", "accounting", "coa", "alarm", "endpoint", "certificate")


@click.command()
@tenant_option
@click.option("--kind", "kinds", type=click.Choice(KINDS), multiple=True, help="Kind of event; repeatable.")
@click.option("--mac", default="", help="MAC address of the device, in any notation.")
@click.option("--user", metavar="NAME", default="", help="User or certificate name.")
@click.option("--nas", metavar="NAME", default="", help="NAS, by name, NAS-Identifier or address.")
@click.option("--site", metavar="SLUG", default="", help="The site.")
@click.option("--rejects", is_flag=True, help="Only rejects.")
@json_option
def command(
    tenant: str, kinds: tuple[str, ...], mac: str, user: str, nas: str, site: str, rejects: bool, as_json: bool
) -> None:
    """Show a tenant's live events until Ctrl-C.

    With --json, each line is an event (docs/reference/events.md). Messages about the connection go to standard error.
    For past events, see ./admit decisions and ./admit session list.
    """
    domain = CommandContext()
    if not domain.settings.redis_url:
        raise Refused("Redis is not configured.", remedy="Set ADMIT_REDIS_URL.")
    with domain.tenant(tenant) as (session, tenant_id):
        event_filter = EventFilter(
            kinds=frozenset(kinds),
            rejects=rejects,
            mac=event_values.format_mac(require_mac(mac)) or "" if mac else "",
            user=user,
            nas=_names(nas, nases.list_nases(session, tenant_id=tenant_id)) if nas else frozenset(),
            site=str(sites.require_by_slug(session, tenant_id=tenant_id, slug=site).id) if site else "",
        )
    with suppress(KeyboardInterrupt), closing(listen(domain.settings.redis_url, [tenant_id], event_filter)) as heard:
        _show(heard, tenant, as_json=as_json)


def _names(nas: str, registered: Sequence[Nas]) -> frozenset[str]:
    """Return the names that select NASes in Filter.nas. Several NASes can have the same name."""
    return frozenset([nas.lower(), *(str(each.id) for each in registered if each.name.lower() == nas.lower())])


def _show(heard: Iterator[LiveEvent | StreamNotice | None], tenant: str, *, as_json: bool) -> None:
    for each in heard:
        match each:
            case LiveEvent(event=event, line=line):
                clock = event.timestamp.partition("T")[2][:12]
                click.echo(line if as_json else f"{clock}  {event.message}")
            case StreamNotice():
                click.echo(_sentence(each, tenant), err=True)


def _sentence(notice: StreamNotice, tenant: str) -> str:
    match notice.kind:
        case "listening":
            return f"Listening to {tenant}."
        case "silent":
            return f"No events for {tenant}: its cell is down or has no ADMIT_REDIS_URL. See ./admit status."
        case "lost":
            return "Lost the connection to Redis. Retrying."
        case "back":
            return "Reconnected to Redis."
        case "left-out" if notice.count is not None:
            return f"{notice.count} events were skipped because too many arrived."
        case _:
            return "Events may be missing because the connection or the cell was down."
