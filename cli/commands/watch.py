"""`./admit watch`."""

from collections.abc import Iterator, Sequence
from contextlib import closing, suppress

import click

from cli.domain import Domain
from cli.fail import Refused
from cli.output import json_option, tenant_option
from nac.events import event_values
from nac.events.event_filter import EventFilter
from nac.events.live_stream import LiveEvent, StreamNotice, listen
from nac.models import Nas
from nac.nases import service as nases
from nac.sites import service as sites
from nac.validation import require_mac

# What agents tell at once.
KINDS = ("authentication", "accounting", "coa", "alarm", "endpoint", "certificate")


@click.command()
@tenant_option
@click.option("--kind", "kinds", type=click.Choice(KINDS), multiple=True, help="Only this; several times.")
@click.option("--mac", default="", help="Of this device, in any notation.")
@click.option("--user", metavar="NAME", default="", help="Of this user or certificate.")
@click.option("--nas", metavar="NAME", default="", help="At this NAS: its name, NAS-Identifier or address.")
@click.option("--site", metavar="SLUG", default="", help="At this site.")
@click.option("--rejects", is_flag=True, help="Only refused devices.")
@json_option
def command(
    tenant: str, kinds: tuple[str, ...], mac: str, user: str, nas: str, site: str, rejects: bool, as_json: bool
) -> None:
    """Show what happens at a tenant as it happens, until Ctrl-C.

    With --json each line is an event (docs/reference/events.md). Messages about the connection go to standard error.
    Past decisions and sessions are in ./admit decisions and ./admit session list.
    """
    domain = Domain()
    if not domain.settings.redis_url:
        raise Refused("Redis is not set up here.", remedy="Set ADMIT_REDIS_URL to where it answers.")
    with domain.tenant(tenant) as (session, tenant_id):
        wanted = EventFilter(
            kinds=frozenset(kinds),
            rejects=rejects,
            mac=event_values.format_mac(require_mac(mac)) or "" if mac else "",
            user=user,
            nas=_names(nas, nases.list_nases(session, tenant_id=tenant_id)) if nas else frozenset(),
            site=str(sites.require_by_slug(session, tenant_id=tenant_id, slug=site).id) if site else "",
        )
    with suppress(KeyboardInterrupt), closing(listen(domain.settings.redis_url, [tenant_id], wanted)) as heard:
        _show(heard, tenant, as_json=as_json)


def _names(nas: str, registered: Sequence[Nas]) -> frozenset[str]:
    """As Filter.nas has them; a name may be given twice."""
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
            return f"Nothing is sent for {tenant}: its cell is down or has no ADMIT_REDIS_URL. See ./admit status."
        case "lost":
            return "The connection to Redis is lost; it is tried again."
        case "back":
            return "Connected to Redis again."
        case "left-out" if notice.count is not None:
            return f"{notice.count} events were left out: more came than are sent or read in time."
        case _:
            return "Events may be missing here: the connection or the cell was away."
