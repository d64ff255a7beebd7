"""Places in lists that go by time or by number, and what several lists narrow by."""

from datetime import datetime
from typing import Annotated

from fastapi import Path, Query
from pydantic import Field

from api.v1.moments import EARLIEST, LATEST
from nac.errors import InvalidInput

# Of a row of the database: no more fits.
_LARGEST = 2**63 - 1

RowId = Annotated[int, Path(ge=1, le=_LARGEST)]
RowNumber = Annotated[int, Field(ge=1, le=_LARGEST)]
Mac = Annotated[str, Query(max_length=40, description="Of this device: 12 hex digits in any notation.")]
User = Annotated[str, Query(max_length=253, description="Of this user; upper or lower case.")]
NasName = Annotated[
    str,
    Query(max_length=253, description="At this NAS: its name, or what it calls itself."),
]
SiteSlug = Annotated[str, Query(max_length=63, description="At the site of this slug.")]


def number_key(text: str) -> int | None:
    """Of a list in the order of numbers."""
    if not text:
        return None
    if not (text.isascii() and text.isdecimal() and int(text[:20]) <= _LARGEST):
        raise _no_place()
    return int(text[:20])


def moment_key(text: str) -> tuple[datetime, int] | None:
    """Of a list in the order of moments, and of numbers within one."""
    if not text:
        return None
    moment, _, number = text.partition(" ")
    row = number_key(number)
    try:
        at = datetime.fromisoformat(moment)
    except ValueError as exc:
        raise _no_place() from exc
    if row is None or at.tzinfo is None or not EARLIEST <= at <= LATEST:
        raise _no_place()
    return at, row


def key_text(at: datetime, row: int) -> str:
    """What `moment_key` reads."""
    return f"{at.isoformat()} {row}"


def _no_place() -> InvalidInput:
    return InvalidInput("This is no place in this list.", place="after")
