"""Events of endpoints, from discovery to deletion."""

from datetime import datetime
from typing import cast

import msgspec

from nac.events.document import VERSION, Endpoint, EndpointStatus, Event, EventPart
from nac.events.notes import id_of, said
from nac.events.parts import ECS, client, organization
from nac.events.texts import Tenant, line, moment, optional_moment, text
from nac.mac import display_mac, normalise_mac
from nac.models import EventNote

# Elastic Common Schema types; a discovery is no user action.
_TYPES = {"discovered": "info", "created": "creation", "removed": "deletion"}


class _Said(msgspec.Struct, frozen=True, kw_only=True):
    mac: str
    name: str = ""
    vendor: str = ""
    profile: str = ""
    valid_until: datetime | None = None


def from_note(note: EventNote, *, tenant: Tenant) -> Event:
    endpoint = said(note, _Said)
    mac = normalise_mac(endpoint.mac)
    return Event(
        timestamp=moment(note.happened_at),
        ecs=ECS,
        event=EventPart(
            id=id_of(note),
            kind="event",
            category=("host" if note.what == "discovered" else "configuration",),
            type=(_TYPES.get(note.what, "change"),),
            dataset="admit.endpoint",
            action=f"endpoint-{note.what}",
            created=moment(note.at),
        ),
        message=line(" ".join(("Endpoint", display_mac(mac), *filter(None, [text(endpoint.name)]), note.what))),
        organization=organization(tenant),
        client=client(mac),
        admit=Endpoint(
            version=VERSION,
            status=cast(EndpointStatus, note.what),
            name=text(endpoint.name),
            vendor=text(endpoint.vendor),
            profile=text(endpoint.profile),
            valid_until=optional_moment(endpoint.valid_until),
        ),
    )
