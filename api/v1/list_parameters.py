"""Keys of lists by time or number, and common filters."""

from datetime import datetime
from typing import Annotated

from fastapi import Path, Query
from pydantic import Field

from api.v1.timestamps import EARLIEST, LATEST
from nac.kit.errors import InvalidInput

# Maximum of bigint.
_MAX_BIGINT = 2**63 - 1

RowId = Annotated[int, Path(ge=1, le=_MAX_BIGINT)]
RowNumber = Annotated[int, Field(ge=1, le=_MAX_BIGINT)]
Mac = Annotated[str, Query(max_length=40, description="MAC address: 12 hex digits in any notation.")]
User = Annotated[str, Query(max_length=253, description="User name; case is ignored.")]
NasName = Annotated[
    str,
    Query(max_length=253, description="Name or NAS-Identifier of the NAS."),
]
SiteSlug = Annotated[str, Query(max_length=63, description="Slug of the site.")]


def parse_number_key(text: str) -> int | None:
    """Parse the key of a list by number. Raises InvalidInput."""
    if not text:
        return None
    if not (text.isascii() and text.isdecimal() and int(text[:20]) <= _MAX_BIGINT):
        raise _build_invalid_place()
    return int(text[:20])


def parse_moment_key(text: str) -> tuple[datetime, int] | None:
    """Parse the key of a list by time, then by number. Raises InvalidInput."""
    if not text:
        return None
    moment, _, number = text.partition(" ")
    row = parse_number_key(number)
    try:
        at = datetime.fromisoformat(moment)
    except ValueError as exc:
        raise _build_invalid_place() from exc
    if row is None or at.tzinfo is None or not EARLIEST <= at <= LATEST:
        raise _build_invalid_place()
    return at, row


def format_moment_key(at: datetime, row: int) -> str:
    """Format the key that `moment_key` parses."""
    return f"{at.isoformat()} {row}"


def _build_invalid_place() -> InvalidInput:
    return InvalidInput("Invalid cursor in `after`.", place="after", remedy="Start again without it.")
