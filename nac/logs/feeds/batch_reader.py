"""Reads the next events of a feed.

Every transaction that writes rows for a tenant's feeds also writes marks: ranges of these rows (`mark_for_feeds`).
Because ids are not in commit order, a feed reads marks by PostgreSQL snapshots, as cells do with `replica_changes` (ADR
0001).

A feed's position has two snapshots. The feed has delivered all marks visible in `done`. The current window has the
marks visible in `until` but not in `done`. The marks of a window do not change, so the feed reads them by id. After the
last mark of the window, the feed stores `until` as `done`. Marks of transactions that commit later are in the next
window.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from sqlalchemy import Row, text
from sqlalchemy.orm import Session

from nac.kit.ids import TenantId
from nac.logs.feeds.event_sources import EVENT_SOURCES, PartlyReadMark
from nac.models import Feed

_MARKS_PER_READ = 200

# feed_waits is a quick check that avoids most searches for marks. Its cost does not depend on other feeds.
_OPEN_WINDOW_SQL = text("""
SELECT pg_current_snapshot()::text, CASE WHEN feed_waits(f) THEN (
    SELECT min(m.id) FROM feed_marks m
    WHERE m.tenant_id = :tenant AND m.xact >= pg_snapshot_xmin(CAST(:done AS pg_snapshot))
        AND NOT pg_visible_in_snapshot(m.xact, CAST(:done AS pg_snapshot)) AND feed_wants(f, m)
) END
FROM feeds f WHERE f.id = :feed
""")
_MARKS_SQL = text("""
SELECT m.id, m.source, m.first_at, m.last_at, m.first_row, m.last_row, m.events
FROM feed_marks m JOIN feeds f ON f.id = :feed
WHERE m.tenant_id = :tenant AND (m.id > :mark OR (m.id = :mark AND :partly))
    AND NOT pg_visible_in_snapshot(m.xact, CAST(:done AS pg_snapshot))
    AND pg_visible_in_snapshot(m.xact, CAST(:until AS pg_snapshot)) AND feed_wants(f, m)
ORDER BY m.tenant_id, m.id LIMIT :most
""")


@dataclass(frozen=True, slots=True)
class FeedPosition:
    """The position of a feed, as in the columns of the table `feeds`."""

    # PostgreSQL snapshots. `until` is None if no window is open.
    done: str
    until: str | None
    mark: int
    # Time of the last delivered row of the mark; None if the mark is finished.
    mark_at: datetime | None
    mark_row: int
    # Number of delivered rows of the mark.
    mark_rows: int = 0

    @classmethod
    def of(cls, feed: Feed) -> "FeedPosition":
        return cls(feed.done, feed.until, feed.mark, feed.mark_at, feed.mark_row, feed.mark_rows)


@dataclass(frozen=True, slots=True)
class FeedBatch:
    # Rows in the order of delivery: (source, row). EVENT_SOURCES lists the sources.
    rows: Sequence[tuple[str, Any]]
    # Position of the feed after the rows of this batch.
    position: FeedPosition
    # Number of rows that were deleted before the feed read them.
    gone: int
    # True if the feed has no unread marks at present.
    last: bool


@dataclass(frozen=True, slots=True)
class _FoundRow:
    mark: int
    at: datetime
    number: int
    source: str
    row: Any

    @property
    def order(self) -> tuple[int, datetime, int]:
        return self.mark, self.at, self.number


def read_batch(session: Session, feed: Feed, position: FeedPosition, *, most: int) -> FeedBatch:
    """Read at most `most` rows after `position`.

    Requires the database role admit_worker and the tenant's scope. A batch can be empty without being the last batch.
    """
    key = {"tenant": feed.tenant_id, "feed": feed.id}
    if position.until is None:
        until, first = session.execute(_OPEN_WINDOW_SQL, key | {"done": position.done}).one_or_none() or ("", None)
        if first is None:
            return FeedBatch((), position, 0, last=True)
        position = FeedPosition(position.done, until, first - 1, None, 0)
    within = {
        "done": position.done,
        "until": position.until,
        "mark": position.mark,
        "partly": position.mark_at is not None,
    }
    marks = session.execute(_MARKS_SQL, key | within | {"most": _MARKS_PER_READ}).all()
    if not marks:
        assert position.until is not None
        return FeedBatch((), FeedPosition(position.until, None, 0, None, 0), 0, last=False)
    return _read_rows(session, feed.tenant_id, position, _limit_marks(marks, most), most)


def _limit_marks(marks: Sequence[Row[Any]], most: int) -> Sequence[Row[Any]]:
    """Return the first marks that together have at least `most` rows; all marks if they have fewer rows."""
    together = 0
    for number, mark in enumerate(marks, start=1):
        # A mark of a replay does not record its number of rows. Assume that it has enough rows.
        together += most if mark.events is None else mark.events
        if together >= most:
            return marks[:number]
    return marks


def _read_rows(
    session: Session, tenant_id: TenantId, position: FeedPosition, marks: Sequence[Row[Any]], most: int
) -> FeedBatch:
    sorted_rows = [
        _FoundRow(mark, at, number, source, row)
        for source in sorted({mark.source for mark in marks})
        for mark, at, number, row in EVENT_SOURCES[source].rows(
            session,
            tenant_id,
            [mark for mark in marks if mark.source == source],
            begun=_partly_read_mark(position),
            most=most,
        )
    ]
    sorted_rows = sorted(sorted_rows, key=lambda each: each.order)[:most]
    rows = [(each.source, each.row) for each in sorted_rows]
    there = Counter(each.mark for each in sorted_rows)
    there[position.mark] += position.mark_rows
    if len(sorted_rows) == most:
        last = sorted_rows[-1]
        begun = replace(position, mark=last.mark, mark_at=last.at, mark_row=last.number, mark_rows=there[last.mark])
        return FeedBatch(rows, begun, _count_gone([mark for mark in marks if mark.id < last.mark], there), last=False)
    ended = replace(position, mark=marks[-1].id, mark_at=None, mark_row=0, mark_rows=0)
    return FeedBatch(rows, ended, _count_gone(marks, there), last=False)


def _count_gone(ended: Sequence[Row[Any]], there: Counter[int]) -> int:
    """Return the number of rows that were deleted before the feed read them.

    `ended` contains the marks that the feed has read completely. `there` has the number of existing rows of each mark.
    """
    return sum(max(0, (mark.events or 0) - there[mark.id]) for mark in ended)


def _partly_read_mark(position: FeedPosition) -> PartlyReadMark | None:
    return None if position.mark_at is None else PartlyReadMark(position.mark, position.mark_at, position.mark_row)
