"""Events of sessions: started, ended, stale and resumed."""

from datetime import datetime
from uuid import UUID

import msgspec

from nac.kit.mac import normalise_mac
from nac.logs.events.accounting import describe_session
from nac.logs.events.document import VERSION, Event, EventPart, Session, SessionPart
from nac.logs.events.event_values import (
    EventTenant,
    clip_count,
    clip_text,
    clip_texts,
    format_address,
    format_moment,
    format_optional_moment,
    format_prefix,
)
from nac.logs.events.parts import ECS, build_named, client, event_id, observer, organization, parse_note, server, user
from nac.models import EventNote

# Event types (Elastic Common Schema), by change of the session.
_TYPES = {"started": "start", "ended": "end", "stale": "end", "resumed": "info"}


class _SessionNote(msgspec.Struct, frozen=True, kw_only=True):
    """The content of a row of `event_notes` about a session: columns of the table `sessions`."""

    id: int
    nas_key: str
    session_id: str
    started_at: datetime
    stopped_at: datetime | None = None
    site_id: UUID | None = None
    nas_id: UUID | None = None
    nas_address: str = ""
    nas_port: str = ""
    mac: str = ""
    identity: str = ""
    framed_ip: str = ""
    framed_ipv6: str = ""
    delegated_prefix: str = ""
    session_seconds: int | None = None
    input_octets: int | None = None
    output_octets: int | None = None
    terminate_cause: str = ""
    flags: tuple[str, ...] = ()


def from_note(note: EventNote, *, tenant: EventTenant) -> Event:
    """Return the event that a session started, ended, became stale or resumed.

    A session is stale if its NAS has sent no updates for so long that Admit presumes its end.
    """
    row = parse_note(note, _SessionNote)
    action = f"session-{note.what}"
    name = row.nas_key.partition("|")[0]
    mac = normalise_mac(row.mac)
    # A session whose first record is its Stop gets two notes at once. The event of the start omits the data of the end.
    begins = note.what == "started"
    return Event(
        timestamp=format_moment(note.happened_at),
        ecs=ECS,
        event=EventPart(
            id=event_id(note),
            kind="event",
            category=("session", "network"),
            type=(_TYPES[note.what],),
            dataset="admit.session",
            action=action,
            created=format_moment(note.at),
        ),
        message=describe_session(mac, row.identity, name or format_address(row.nas_address), action),
        organization=organization(tenant),
        user=user(row.identity, mac),
        client=client(mac, ip=row.framed_ip, octets=None if begins else row.input_octets),
        server=None if begins else server(row.output_octets),
        observer=observer(name, row.nas_address, row.nas_port),
        admit=Session(
            version=VERSION,
            site=build_named(row.site_id),
            nas=build_named(row.nas_id),
            session=SessionPart(
                id=clip_text(row.session_id),
                row=row.id,
                seconds=None if begins else clip_count(row.session_seconds),
                started=format_moment(row.started_at),
                ended=None if begins else format_optional_moment(row.stopped_at),
                terminate_cause="" if begins else clip_text(row.terminate_cause),
                flags=clip_texts(row.flags),
            ),
            ip6=format_address(row.framed_ipv6),
            delegated_prefix=format_prefix(row.delegated_prefix),
        ),
    )
