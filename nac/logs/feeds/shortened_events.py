"""Shortening of events that exceed a receiver's limit.

A shortened event matches the schema, and lists the omitted members in `left_out`.
"""

from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import Struct

from nac.logs.events.document import Event, to_json

# Optional members of an event, in the order in which they are removed.
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
# Maximum length of texts in the shortest form of an event. A lower limit would cut values of fixed formats.
_MIN_CHARACTERS = 64


def shorten_event(event: Event, *, most: int, encoded: Callable[[bytes], bytes] = bytes) -> bytes:
    """Encode the event in at most `most` octets, counted after `encoded` has converted the event.

    Removes optional members one by one. If the event is still too long, keeps only required members.
    """
    whole = to_json(event)
    if len(text := encoded(whole)) <= most:
        return text
    members: dict[str, Any] = msgspec.json.decode(whole)
    left_out: list[str] = []
    for place in _DISPENSABLE:
        *above, name = place.split(".")
        holder = members[above[0]] if above else members
        part = event.admit if above else event
        if name in _required_names(part) or holder.pop(name, None) is None:
            continue
        left_out.append(place)
        text = encoded(msgspec.json.encode(members | {"left_out": left_out}))
        if len(text) <= most:
            return text
    return encoded(msgspec.json.encode(_minimal_event(event) | {"left_out": ["*"]}))


def _minimal_event(event: Event) -> dict[str, Any]:
    """Return the required members, the tenant and the outcome. Cuts all texts except the id."""
    kept = _required_members(event)
    kept["event"] |= {"id": event.event.id, "outcome": event.event.outcome}
    return kept | ({"organization": _required_members(event.organization)} if event.organization else {})


def _required_members(part: Struct) -> dict[str, Any]:
    """Return the required members of a part of an event, with short texts."""
    config = part.__struct_config__
    tag = {config.tag_field: config.tag} if config.tag_field else {}
    required = _required_names(part)
    members = [(field.encode_name, getattr(part, field.name)) for field in msgspec.structs.fields(part)]
    return tag | {name: _cut_text(value) for name, value in members if name in required}


def _required_names(part: Struct) -> set[str]:
    return {field.encode_name for field in msgspec.structs.fields(part) if field.required}


def _cut_text(value: object) -> object:
    match value:
        case Struct():
            return _required_members(value)
        case str() if len(value) > _MIN_CHARACTERS:
            return value[: _MIN_CHARACTERS - 3] + "..."
        case _:
            return value
