"""Fields that several kinds of events have in common."""

from collections.abc import Mapping
from typing import Any, TypeVar
from uuid import UUID

import msgspec

from nac.kit.mac import normalise_mac
from nac.logs.events.document import (
    ECS_VERSION,
    Client,
    Ecs,
    Ingress,
    Interface,
    Named,
    Observer,
    Organization,
    Part,
    Server,
    User,
)
from nac.logs.events.event_values import (
    EventTenant,
    clip_count,
    clip_text,
    format_address,
    format_mac,
    format_uuid,
    row_key,
)
from nac.models import EventNote

P = TypeVar("P", bound=Part)
ECS = Ecs(version=ECS_VERSION)
S = TypeVar("S", bound=msgspec.Struct)


def none_if_empty(part: P) -> P | None:
    """Return the part, or None if all its fields are empty."""
    return None if part == type(part)() else part


def organization(tenant: EventTenant) -> Organization:
    return Organization(id=tenant.id, name=tenant.slug)


def is_user_name(name: str, digits: str | None) -> bool:
    """Return whether `name` is a user name. With MAB, the name is the MAC address `digits`, in any notation."""
    return bool(name) and (not digits or normalise_mac(name) != digits)


def user(name: str, digits: str | None) -> User | None:
    """Return the user of an event; None if `name` is empty or is the device's MAC address (`digits`)."""
    return User(name=clip_text(name)) if is_user_name(name, digits) else None


def client(digits: str | None, *, ip: str | None = None, octets: int | None = None) -> Client | None:
    """Return the device of an event. `digits` is its MAC address, `octets` the number of bytes that it sent."""
    return none_if_empty(Client(mac=format_mac(digits or None), ip=format_address(ip), bytes=clip_count(octets)))


def server(octets: int | None) -> Server | None:
    return none_if_empty(Server(bytes=clip_count(octets)))


def observer(name: str, ip: str | None, port: str) -> Observer | None:
    known = format_address(ip)
    if not (name or known or port):
        return None
    return Observer(
        type="nas",
        name=clip_text(name),
        ip=(known,) if known else (),
        ingress=Ingress(interface=Interface(name=clip_text(port))) if port else None,
    )


def build_named(id_: UUID | str | None, name: str = "") -> Named | None:
    return none_if_empty(Named(id=format_uuid(id_), name=clip_text(name)))


def event_id(note: EventNote) -> str:
    """Return the id of the event that a row of `event_notes` describes."""
    return f"{note.kind}:{row_key(note.at, note.id)}"


def parse_note(note: EventNote, form: type[S]) -> S:
    """Decode the content of a row of `event_notes` to an object of the type `form`. Raises msgspec.ValidationError."""
    values: Mapping[str, Any] = note.said
    return msgspec.convert({name: value for name, value in values.items() if value is not None}, form)
