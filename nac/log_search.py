"""Looking through a log that is partitioned by day, from its newest row back, for as long as one answer may take.

A log has a partition for each day of years, and what is asked for may be rare or not there at all. PostgreSQL plans for
each partition that a query may reach, so it is asked for a stretch of days at a time, each longer than the one before;
and what no index finds is read a few thousand rows at a time. What a search has not reached when its time is over, the
next one goes on with.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from time import monotonic
from typing import Any, Generic, NamedTuple, TypeVar

from sqlalchemy import Select, String, cast, column, func, literal, select, table, tuple_
from sqlalchemy.dialects.postgresql import REGCLASS
from sqlalchemy.orm import Session

from nac.clock import utc_now
from nac.ids import TenantId
from nac.models import AccountingLog, AuthLog

# Of a row: when it was written, and its id.
Key = tuple[datetime, int]
Log = type[AuthLog] | type[AccountingLog]
Row = TypeVar("Row")
Query = TypeVar("Query", bound=Select[*tuple[Any, ...]])

# A page has 150 ms: the last stretch may take as long as all before it.
BUDGET_SECONDS = 0.05
# What is read of a log that no index serves, before it is looked how long that took.
SLICE_ROWS = 4_000
_FIRST_DAYS, _NEXT_DAYS, _MOST_DAYS, _GROWTH = 2, 16, 64, 4
_INHERITS = table("pg_inherits", column("inhrelid"), column("inhparent"))
_CLASSES = table("pg_class", column("oid"), column("relname"))


class Stretch(NamedTuple):
    """Rows behind `before` in the order from the newest back, down to `last`, included; None for no bound."""

    before: Key | None
    last: Key | None


@dataclass(frozen=True, slots=True)
class Searched(Generic[Row]):
    rows: Sequence[Row]
    # Where to go on; None where all was looked through.
    next: Key | None


def search(
    session: Session,
    log: Log,
    *,
    tenant_id: TenantId,
    look: Callable[[Stretch, int], Sequence[Row]],
    key: Callable[[Row], Key],
    reads_rows: bool,
    before: Key | None,
    since: datetime | None,
    limit: int,
) -> Searched[Row]:
    """`look` gives the first so many rows that fit of a stretch; `reads_rows` says that no index finds them."""
    found: list[Row] = []
    deadline = monotonic() + BUDGET_SECONDS
    # Clocks are wrong: rows of times to come are of the first stretch.
    now = utc_now()
    top, floor = min(before[0], now) if before else now, since
    # Where a search goes on, the days right behind are no likelier than others.
    days = _FIRST_DAYS if before is None or reads_rows else _NEXT_DAYS
    while True:
        start: datetime | None = top - timedelta(days=days)
        if floor is None and (before is not None or days > _FIRST_DAYS):
            floor = _first_day(session, log)
        if floor is not None and start is not None and start <= floor:
            # What is older than all partitions is in one of its own.
            start = since
        stretch = Stretch(before, (start, 0) if start else None)
        cut = _row_at(session, log, tenant_id, stretch) if reads_rows else None
        if cut is not None:
            stretch = Stretch(before, cut)
        found += look(stretch, limit - len(found))
        if len(found) == limit:
            return Searched(found, key(found[-1]))
        if stretch.last is None or (cut is None and start == since):
            return Searched(found, None)
        before = stretch.last
        top = min(before[0], now)
        if monotonic() > deadline:
            return Searched(found, before)
        if cut is None:
            days = min(days * _GROWTH, _MOST_DAYS)


def within(query: Query, log: Log, stretch: Stretch) -> Query:
    """The bounds on `at` alone are what leave out partitions."""
    if stretch.before is not None:
        query = query.where(log.at <= stretch.before[0], tuple_(log.at, log.id) < stretch.before)
    if stretch.last is not None:
        query = query.where(log.at >= stretch.last[0], tuple_(log.at, log.id) >= stretch.last)
    return query


def _row_at(session: Session, log: Log, tenant_id: TenantId, stretch: Stretch) -> Key | None:
    """The key of the SLICE_ROWS-th row; None where there are not so many. Reads the index alone."""
    query = within(select(log.at, log.id).where(log.tenant_id == tenant_id), log, stretch)
    row = session.execute(query.order_by(log.at.desc(), log.id.desc()).offset(SLICE_ROWS - 1).limit(1)).one_or_none()
    return None if row is None else (row[0], row[1])


def _first_day(session: Session, log: Log) -> datetime:
    """Of the oldest partition."""
    parent = cast(literal(log.__tablename__, String()), REGCLASS)
    day = func.substring(_CLASSES.c.relname, "_([0-9]{8})$")
    query = select(func.min(day)).where(_INHERITS.c.inhparent == parent, _CLASSES.c.oid == _INHERITS.c.inhrelid)
    first = session.scalar(query)
    return datetime.strptime(first, "%Y%m%d").replace(tzinfo=UTC) if first else utc_now()
