"""Events of endpoints, from discovery to deletion."""

from datetime import datetime
from typing import cast

import msgspec

from nac.kit.mac import display_mac, normalise_mac
from nac.logs.events.document import VERSION, Endpoint, EndpointStatus, Event, EventPart
from nac.logs.events.event_values import EventTenant, clip_line, clip_text, format_moment, format_optional_moment
from nac.logs.events.parts import ECS, client, event_id, organization, parse_note
from nac.models import EventNote

# Event types (Elastic Common Schema), by change. A discovery is "info", because no user caused it.
_TYPES = {"discovered": "info", "created": "creation", "removed": "deletion"}


class _EndpointNote(msgspec.Struct, frozen=True, kw_only=True):
    mac: str
    name: str = ""
    vendor: str = ""
    profile: str = ""
    valid_until: datetime | None = None


def from_note(note: EventNote, *, tenant: EventTenant) -> Event:
    endpoint = parse_note(note, _EndpointNote)
    mac = normalise_mac(endpoint.mac)
    return Event(
        timestamp=format_moment(note.happened_at),
        ecs=ECS,
        event=EventPart(
            id=event_id(note),
            kind="event",
            category=("host" if note.what == "discovered" else "configuration",),
            type=(_TYPES.get(note.what, "change"),),
            dataset="admit.endpoint",
            action=f"endpoint-{note.what}",
            created=format_moment(note.at),
        ),
        message=clip_line(
            " ".join(("Endpoint", display_mac(mac), *filter(None, [clip_text(endpoint.name)]), note.what))
        ),
        organization=organization(tenant),
        client=client(mac),
        admit=Endpoint(
            version=VERSION,
            status=cast(EndpointStatus, note.what),
            name=clip_text(endpoint.name),
            vendor=clip_text(endpoint.vendor),
            profile=clip_text(endpoint.profile),
            valid_until=format_optional_moment(endpoint.valid_until),
        ),
    )
