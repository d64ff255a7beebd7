"""Events that are longer than a receiver takes: still JSON and still of the schema, with what is left out named."""

from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import Struct

from nac.events.document import Event, to_json

# What a message can do without, the first one first, where it is too long.
_DISPENSABLE = (
    "admit.before",
    "admit.after",
    "admit.detail",
    "tls",
    "x509",
    "rule",
    "observer",
    "user",
    "admit.session",
)
# Of each text of an event that keeps nothing but what the schema requires: less than that is of no fixed form.
_LEAST_CHARACTERS = 64


def shortened(event: Event, *, most: int, encoded: Callable[[bytes], bytes] = bytes) -> bytes:
    """The event as JSON of `most` octets at the most, as `encoded` makes it: first without members that it can do
    without, then with what the schema requires alone."""
    whole = to_json(event)
    if len(text := encoded(whole)) <= most:
        return text
    members: dict[str, Any] = msgspec.json.decode(whole)
    left_out: list[str] = []
    for place in _DISPENSABLE:
        *above, name = place.split(".")
        holder = members[above[0]] if above else members
        part = event.admit if above else event
        if name in _names_required(part) or holder.pop(name, None) is None:
            continue
        left_out.append(place)
        text = encoded(msgspec.json.encode(members | {"left_out": left_out}))
        if len(text) <= most:
            return text
    return encoded(msgspec.json.encode(_least(event) | {"left_out": ["*"]}))


def _least(event: Event) -> dict[str, Any]:
    """What the schema requires, whose it is and how it ended; whole is the id alone."""
    kept = _required(event)
    kept["event"] |= {"id": event.event.id, "outcome": event.event.outcome}
    return kept | ({"organization": _required(event.organization)} if event.organization else {})


def _required(part: Struct) -> dict[str, Any]:
    """Members that the schema requires; texts are cut."""
    config = part.__struct_config__
    tag = {config.tag_field: config.tag} if config.tag_field else {}
    required = _names_required(part)
    members = [(field.encode_name, getattr(part, field.name)) for field in msgspec.structs.fields(part)]
    return tag | {name: _cut(value) for name, value in members if name in required}


def _names_required(part: Struct) -> set[str]:
    return {field.encode_name for field in msgspec.structs.fields(part) if field.required}


def _cut(value: object) -> object:
    match value:
        case Struct():
            return _required(value)
        case str() if len(value) > _LEAST_CHARACTERS:
            return value[: _LEAST_CHARACTERS - 3] + "..."
        case _:
            return value
