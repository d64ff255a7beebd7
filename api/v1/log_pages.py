"""Pages of logs, which one answer does not look through as a whole."""

from collections.abc import Callable
from datetime import datetime
from typing import Annotated, TypedDict, TypeVar

from fastapi import Query
from pydantic import Field

from api.v1.keys import key_text, moment_key
from api.v1.moments import PastMoment
from api.v1.paging import Item, Page, SortedPaging
from nac.errors import InvalidInput
from nac.log_search import LogKey, LogSearchResult

Row = TypeVar("Row")
Since = Annotated[PastMoment | None, Query(description="Not before.")]
Until = Annotated[PastMoment | None, Query(description="Before that.")]


class LogPage(Page[Item]):
    """What fits is looked for as long as one answer may take: a page may be short, or empty, and yet have a `next`."""

    searched_to: datetime | None = Field(
        description="All that is not older than that was looked through; null where all was."
    )


class LogRange(TypedDict):
    """What of a log is looked through for a page, as nac.log_search has it."""

    before: LogKey | None
    until: datetime | None
    limit: int
    oldest_first: bool


def looked(paging: SortedPaging, since: datetime | None, until: datetime | None) -> LogRange:
    """Raises InvalidInput."""
    if since is not None and until is not None and until <= since:
        raise InvalidInput("The period ends before it begins.", place="until", remedy="Give a later time.")
    first, last = (until, since) if paging.goes_down else (since, until)
    bounds = [key for key in (moment_key(paging.after()), (first, 0) if first else None) if key]
    before = (min if paging.goes_down else max)(bounds, default=None)
    return LogRange(before=before, until=last, limit=paging.limit, oldest_first=not paging.goes_down)


def log_page(paging: SortedPaging, found: LogSearchResult[Row], item: Callable[[Row], Item]) -> LogPage[Item]:
    key = found.next
    return LogPage(
        items=[item(row) for row in found.rows],
        next=paging.cursor(key_text(*key)) if key else None,
        searched_to=key[0] if key else None,
    )
