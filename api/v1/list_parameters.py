"""Common parts of lists: filters, pages of logs, and the keys in the cursors of lists that are sorted by time or
number.
"""

from collections.abc import Callable
from datetime import datetime
from typing import Annotated, TypedDict, TypeVar

from fastapi import Query
from pydantic import Field

from api.v1.paging import Item, Page, SortedPaging, build_invalid_place
from api.v1.timestamps import EARLIEST, LATEST, PastMoment
from nac.kit.errors import InvalidInput
from nac.sessions.log_search import LogKey, LogSearchResult

# Maximum of bigint.
_MAX_BIGINT = 2**63 - 1
RowNumber = Annotated[int, Field(ge=1, le=_MAX_BIGINT)]
Mac = Annotated[str, Query(max_length=40, description="MAC address of the device: 12 hex digits in any notation.")]
User = Annotated[str, Query(max_length=253, description="User name of the listed items; case is ignored.")]
NasName = Annotated[
    str,
    Query(max_length=253, description="Name or NAS-Identifier of the NAS."),
]
SiteSlug = Annotated[str, Query(max_length=63, description="Slug of the site of the listed items.")]
Row = TypeVar("Row")
Since = Annotated[PastMoment | None, Query(description="Start of the period of the listed items (RFC 3339).")]
Until = Annotated[PastMoment | None, Query(description="End of the period of the listed items (RFC 3339, exclusive).")]


def parse_number_key(text: str) -> int | None:
    """Parse the key in the cursor of a list that is sorted by number. Raises InvalidInput."""
    if not text:
        return None
    if not (text.isascii() and text.isdecimal() and int(text[:20]) <= _MAX_BIGINT):
        raise build_invalid_place()
    return int(text[:20])


def parse_log_key(text: str) -> tuple[datetime, int] | None:
    """Parse the key in the cursor of a list that is sorted by time, then by number. Raises InvalidInput."""
    if not text:
        return None
    moment, _, number = text.partition(" ")
    row = parse_number_key(number)
    try:
        at = datetime.fromisoformat(moment)
    except ValueError as exc:
        raise build_invalid_place() from exc
    if row is None or at.tzinfo is None or not EARLIEST <= at <= LATEST:
        raise build_invalid_place()
    return at, row


def format_log_key(at: datetime, row: int) -> str:
    """Return the key of a row, for a cursor that `parse_log_key` later parses."""
    return f"{at.isoformat()} {row}"


class LogPage(Page[Item]):
    """A page of a log.

    The search has a time limit. So a page can have fewer items than `limit`, or no items, and still have a `next`.
    """

    searched_to: datetime | None = Field(
        description="Time back to which Admit searched the log for this page; null if Admit searched the whole log."
    )


class LogRange(TypedDict):
    """Part of a log that nac.sessions.log_search searches for the rows of one page."""

    before: LogKey | None
    until: datetime | None
    limit: int
    oldest_first: bool


def build_log_range(paging: SortedPaging, since: datetime | None, until: datetime | None) -> LogRange:
    """Return the range to search. Raises InvalidInput if the range is empty."""
    if since is not None and until is not None and until <= since:
        raise InvalidInput("`until` must be after `since`.", place="until", remedy="Set a later time for `until`.")
    first, last = (until, since) if paging.goes_down else (since, until)
    bounds = [key for key in (parse_log_key(paging.after()), (first, 0) if first else None) if key]
    before = (min if paging.goes_down else max)(bounds, default=None)
    return LogRange(before=before, until=last, limit=paging.limit, oldest_first=not paging.goes_down)


def build_log_page(paging: SortedPaging, search: LogSearchResult[Row], item: Callable[[Row], Item]) -> LogPage[Item]:
    key = search.next
    return LogPage(
        items=[item(row) for row in search.rows],
        next=paging.cursor(format_log_key(*key)) if key else None,
        searched_to=key[0] if key else None,
    )
