"""Pages of logs that are too long to search in one response."""

from collections.abc import Callable
from datetime import datetime
from typing import Annotated, TypedDict, TypeVar

from fastapi import Query
from pydantic import Field

from api.v1.list_parameters import format_moment_key, parse_moment_key
from api.v1.paging import Item, Page, SortedPaging
from api.v1.timestamps import PastMoment
from nac.kit.errors import InvalidInput
from nac.sessions.log_search import LogKey, LogSearchResult

Row = TypeVar("Row")
Since = Annotated[PastMoment | None, Query(description="Start of the period (RFC 3339).")]
Until = Annotated[PastMoment | None, Query(description="End of the period (RFC 3339, exclusive).")]


class LogPage(Page[Item]):
    """A page of a log.

    The search has a time limit: a page can be short or empty and still have a `next`.
    """

    searched_to: datetime | None = Field(description="Time back to which the log was searched; null if all of it was.")


class LogRange(TypedDict):
    """Part of a log to search for a page, for nac.sessions.log_search."""

    before: LogKey | None
    until: datetime | None
    limit: int
    oldest_first: bool


def build_log_range(paging: SortedPaging, since: datetime | None, until: datetime | None) -> LogRange:
    """Return the range to search. Raises InvalidInput if it is empty."""
    if since is not None and until is not None and until <= since:
        raise InvalidInput("`until` must be after `since`.", place="until", remedy="Set a later time.")
    first, last = (until, since) if paging.goes_down else (since, until)
    bounds = [key for key in (parse_moment_key(paging.after()), (first, 0) if first else None) if key]
    before = (min if paging.goes_down else max)(bounds, default=None)
    return LogRange(before=before, until=last, limit=paging.limit, oldest_first=not paging.goes_down)


def build_log_page(paging: SortedPaging, search: LogSearchResult[Row], item: Callable[[Row], Item]) -> LogPage[Item]:
    key = search.next
    return LogPage(
        items=[item(row) for row in search.rows],
        next=paging.cursor(format_moment_key(*key)) if key else None,
        searched_to=key[0] if key else None,
    )
