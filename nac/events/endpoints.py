"""Devices that were seen for the first time, and those that were blocked."""

from datetime import datetime

from nac.events.document import VERSION, Endpoint, Event, EventPart
from nac.events.parts import ECS, client, organization
from nac.events.texts import Tenant, key, line, moment, text
from nac.mac import display_mac, normalise_mac
from nac.models import AuditEntry
from nac.models import Endpoint as EndpointRow


def discovered(row: EndpointRow, *, tenant: Tenant) -> Event:
    return _endpoint(
        f"{row.id}:discovered",
        row.first_seen_at or row.created_at,
        row.mac,
        Endpoint(
            version=VERSION,
            status="discovered",
            name=text(row.name),
            vendor=text(row.vendor),
            profile=text(row.profile),
        ),
        tenant,
    )


def blocked(entry: AuditEntry, *, tenant: Tenant) -> Event:
    """Of the entry `endpoint.block`."""
    if entry.action != "endpoint.block":
        raise ValueError(f"{entry.action} blocks no endpoint")
    told = Endpoint(version=VERSION, status="blocked")
    return _endpoint(f"{key(entry.at, entry.id)}:blocked", entry.at, normalise_mac(entry.target), told, tenant)


def _endpoint(id_: str, at: datetime, mac: str, told: Endpoint, tenant: Tenant) -> Event:
    return Event(
        timestamp=moment(at),
        ecs=ECS,
        event=EventPart(
            id=f"endpoint:{id_}",
            kind="event",
            category=("host",),
            type=("info" if told.status == "discovered" else "change",),
            dataset="admit.endpoint",
            action=f"endpoint-{told.status}",
        ),
        message=line(f"Endpoint {display_mac(mac)} {told.name} {told.status}".replace("  ", " ")),
        organization=organization(tenant),
        client=client(mac),
        admit=told,
    )
