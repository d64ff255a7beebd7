"""Notes of what befell a thing (`event_notes`), which triggers write in the words of the moment."""

from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from nac.events.texts import key
from nac.models import EventNote

S = TypeVar("S", bound=msgspec.Struct)


def id_of(note: EventNote) -> str:
    """Of its event."""
    return f"{note.kind}:{key(note.at, note.id)}"


def said(note: EventNote, form: type[S]) -> S:
    """What it says of the thing. Raises msgspec.ValidationError."""
    values: Mapping[str, Any] = note.said
    return msgspec.convert({name: value for name, value in values.items() if value is not None}, form)
