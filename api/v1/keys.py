"""Places in lists that go by time or by number, and what several lists narrow by."""

from datetime import UTC, datetime
from typing import Annotated

from fastapi import Path, Query
from pydantic import AfterValidator, AwareDatetime, Field

from nac.errors import InvalidInput

_LATEST = datetime(9999, 12, 30, tzinfo=UTC)
_EARLIEST = datetime(1970, 1, 1, tzinfo=UTC)
# Of a row of the database: no more fits.
_LARGEST = 2**63 - 1


def _require_reachable(moment: datetime) -> datetime:
    """In whichever time zone it is told, it must stay a date."""
    if not _EARLIEST <= moment <= _LATEST:
        raise ValueError("give a time from 1970 to 9999")
    return moment


Moment = Annotated[AwareDatetime, AfterValidator(_require_reachable), Field(examples=["2026-01-31T08:00:00Z"])]
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
    if row is None or at.tzinfo is None or not _EARLIEST <= at <= _LATEST:
        raise _no_place()
    return at, row


def key_text(at: datetime, row: int) -> str:
    """What `moment_key` reads."""
    return f"{at.isoformat()} {row}"


def _no_place() -> InvalidInput:
    return InvalidInput("This is no place in this list.", place="after")
