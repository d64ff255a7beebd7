"""Events of sessions, each of which spans many accounting records."""

from datetime import datetime
from uuid import UUID

import msgspec

from nac.events.accounting import sentence
from nac.events.document import VERSION, Event, EventPart, Session, SessionPart
from nac.events.notes import id_of, said
from nac.events.parts import ECS, client, named, observer, organization, server, user
from nac.events.texts import Tenant, address, count, moment, optional_moment, prefix, text, texts
from nac.mac import normalise_mac
from nac.models import EventNote

# Elastic Common Schema types by change.
_TYPES = {"started": "start", "ended": "end", "stale": "end", "resumed": "info"}


class _Said(msgspec.Struct, frozen=True, kw_only=True):
    """Columns of `sessions`."""

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


def from_note(note: EventNote, *, tenant: Tenant) -> Event:
    """Return the event: started, ended, stale (silent, presumed ended) or resumed (reported again)."""
    row = said(note, _Said)
    action = f"session-{note.what}"
    name = row.nas_key.partition("|")[0]
    mac = normalise_mac(row.mac)
    # A session known first by its Stop has two notes at once; the start has no end data.
    begins = note.what == "started"
    return Event(
        timestamp=moment(note.happened_at),
        ecs=ECS,
        event=EventPart(
            id=id_of(note),
            kind="event",
            category=("session", "network"),
            type=(_TYPES[note.what],),
            dataset="admit.session",
            action=action,
            created=moment(note.at),
        ),
        message=sentence(mac, row.identity, name or address(row.nas_address), action),
        organization=organization(tenant),
        user=user(row.identity, mac),
        client=client(mac, ip=row.framed_ip, octets=None if begins else row.input_octets),
        server=None if begins else server(row.output_octets),
        observer=observer(name, row.nas_address, row.nas_port),
        admit=Session(
            version=VERSION,
            site=named(row.site_id),
            nas=named(row.nas_id),
            session=SessionPart(
                id=text(row.session_id),
                row=row.id,
                seconds=None if begins else count(row.session_seconds),
                started=moment(row.started_at),
                ended=None if begins else optional_moment(row.stopped_at),
                terminate_cause="" if begins else text(row.terminate_cause),
                flags=texts(row.flags),
            ),
            ip6=address(row.framed_ipv6),
            delegated_prefix=prefix(row.delegated_prefix),
        ),
    )
