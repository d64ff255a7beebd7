"""Notes of changes (`event_notes`), written by database triggers."""

from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from nac.logs.events.event_values import row_key
from nac.models import EventNote

S = TypeVar("S", bound=msgspec.Struct)


def event_id(note: EventNote) -> str:
    """Return the id of the note's event."""
    return f"{note.kind}:{row_key(note.at, note.id)}"


def parse_note(note: EventNote, form: type[S]) -> S:
    """Decode the note's content. Raises msgspec.ValidationError."""
    values: Mapping[str, Any] = note.said
    return msgspec.convert({name: value for name, value in values.items() if value is not None}, form)
