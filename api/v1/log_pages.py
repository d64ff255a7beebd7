"""Pages of logs, which one answer does not look through as a whole."""

from collections.abc import Callable
from datetime import datetime
from typing import Annotated, TypeVar

from fastapi import Query

from api.v1.keys import Moment, key_text
from api.v1.paging import Item, Page, cursor
from nac.errors import InvalidInput
from nac.log_search import Key, Searched

Row = TypeVar("Row")
Since = Annotated[Moment | None, Query(description="Not before.")]
Until = Annotated[Moment | None, Query(description="Before that.")]


class LogPage(Page[Item]):
    """What fits is looked for as long as one answer may take: a page may be short, or empty, and yet have a `next`."""

    # All that is not older than that was looked through; null where all was.
    searched_to: datetime | None


def first_key(after: Key | None, until: datetime | None) -> Key | None:
    """Where a page begins."""
    if until is None:
        return after
    return min(after, (until, 0)) if after else (until, 0)


def log_page(found: Searched[Row], item: Callable[[Row], Item]) -> LogPage[Item]:
    key = found.next
    return LogPage(
        items=[item(row) for row in found.rows],
        next=cursor(key_text(*key)) if key else None,
        searched_to=key[0] if key else None,
    )


def require_period(since: datetime | None, until: datetime | None) -> None:
    if since is not None and until is not None and until <= since:
        raise InvalidInput("The period ends before it begins.", place="until", remedy="Give a later time.")
