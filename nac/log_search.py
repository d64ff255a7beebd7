"""Looking through a log that is partitioned by day, from its newest row back or from its oldest on, for as long as one
answer may take.

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
from nac.db import set_for_transaction
from nac.ids import TenantId
from nac.models import AccountingLog, AuthLog

# Of a row: when it was written, and its id.
LogKey = tuple[datetime, int]
LogTable = type[AuthLog] | type[AccountingLog]
Row = TypeVar("Row")
Query = TypeVar("Query", bound=Select[*tuple[Any, ...]])

# A page has 150 ms: the last stretch may take as long as all before it.
BUDGET_SECONDS = 0.05
# What is read of a log that no index serves, before it is looked how long that took.
SLICE_ROWS = 4_000
_INITIAL_DAYS, _CONTINUATION_DAYS, _MAX_DAYS, _GROWTH = 2, 16, 64, 4
_EVER, _NEVER = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)
_INHERITS = table("pg_inherits", column("inhrelid"), column("inhparent"))
_CLASSES = table("pg_class", column("oid"), column("relname"))


class LogStretch(NamedTuple):
    """Rows behind `before` in the order from the newest back, or from the oldest on, as far as `last`, included; None
    for no bound."""

    before: LogKey | None
    last: LogKey | None
    oldest_first: bool = False


@dataclass(frozen=True, slots=True)
class LogSearchResult(Generic[Row]):
    rows: Sequence[Row]
    # Where to go on; None where all was looked through.
    next: LogKey | None


def search_log(
    session: Session,
    log: LogTable,
    *,
    tenant_id: TenantId,
    look: Callable[[LogStretch, int], Sequence[Row]],
    key: Callable[[Row], LogKey],
    reads_rows: bool,
    before: LogKey | None,
    until: datetime | None,
    limit: int,
    oldest_first: bool = False,
) -> LogSearchResult[Row]:
    """`look` gives the first so many rows that fit of a stretch; `reads_rows` says that no index finds them. `before`
    is where it begins, `until` how far it goes: down to that moment, or up to before it."""
    # A prepared plan knows neither the days nor how rare what is wanted is: it reads the log from its newest row on.
    set_for_transaction(session, plan_cache_mode="force_custom_plan")
    found: list[Row] = []
    deadline = monotonic() + BUDGET_SECONDS
    reach = _OldestFirstWindow(session, log, until) if oldest_first else _NewestFirstWindow(session, log, until)
    # Where a search goes on, the days right behind are no likelier than others.
    days = _INITIAL_DAYS if before is None or reads_rows else _CONTINUATION_DAYS
    while True:
        end = reach.end(before, days)
        stretch = LogStretch(before, (end, 0) if end else None, oldest_first)
        cut = _slice_end_key(session, log, tenant_id, stretch) if reads_rows else None
        if cut is not None:
            stretch = stretch._replace(last=cut)
        found += look(stretch, limit - len(found))
        if len(found) == limit:
            return LogSearchResult(found, key(found[-1]))
        if stretch.last is None or (cut is None and end == until):
            return LogSearchResult(found, None)
        before = stretch.last
        if monotonic() > deadline:
            return LogSearchResult(found, before)
        if cut is None:
            days = min(days * _GROWTH, _MAX_DAYS)


class _NewestFirstWindow:
    def __init__(self, session: Session, log: LogTable, until: datetime | None) -> None:
        self._session, self._log, self._until = session, log, until
        self._floor = until
        # Clocks are wrong: rows of times to come are of the first stretch.
        self._now = utc_now()

    def end(self, before: LogKey | None, days: int) -> datetime | None:
        """Of the stretch of so many days that begins there."""
        top = min(before[0], self._now) if before else self._now
        end = top - timedelta(days=days)
        if self._floor is None and (before is not None or days > _INITIAL_DAYS):
            self._floor = _oldest_partition_day(self._session, self._log)
        # What is older than all partitions is in one of its own.
        return self._until if self._floor is not None and end <= self._floor else end


class _OldestFirstWindow:
    def __init__(self, session: Session, log: LogTable, until: datetime | None) -> None:
        self._session, self._log, self._until = session, log, until
        # Rows of times to come are of the last stretch.
        self._ceiling = min(until or _NEVER, utc_now())

    def end(self, before: LogKey | None, days: int) -> datetime | None:
        """As of `_Down`; the first has what is older than all partitions, too."""
        start = max(_oldest_partition_day(self._session, self._log), before[0] if before else _EVER)
        return self._until if start >= self._ceiling - timedelta(days=days) else start + timedelta(days=days)


def restrict_to_stretch(query: Query, log: LogTable, stretch: LogStretch) -> Query:
    """The bounds on `at` alone are what leave out partitions."""
    low, high = (stretch.before, stretch.last) if stretch.oldest_first else (stretch.last, stretch.before)
    key, excluded = tuple_(log.at, log.id), stretch.before
    if high is not None:
        query = query.where(log.at <= high[0], key < high if high is excluded else key <= high)
    if low is not None:
        query = query.where(log.at >= low[0], key > low if low is excluded else key >= low)
    return query.order_by(*(each.asc() if stretch.oldest_first else each.desc() for each in (log.at, log.id)))


def _slice_end_key(session: Session, log: LogTable, tenant_id: TenantId, stretch: LogStretch) -> LogKey | None:
    """The key of the SLICE_ROWS-th row; None where there are not so many. Reads the index alone."""
    query = restrict_to_stretch(select(log.at, log.id).where(log.tenant_id == tenant_id), log, stretch)
    row = session.execute(query.offset(SLICE_ROWS - 1).limit(1)).one_or_none()
    return None if row is None else (row[0], row[1])


def _oldest_partition_day(session: Session, log: LogTable) -> datetime:
    """Of the oldest partition."""
    parent = cast(literal(log.__tablename__, String()), REGCLASS)
    day = func.substring(_CLASSES.c.relname, "_([0-9]{8})$")
    query = select(func.min(day)).where(_INHERITS.c.inhparent == parent, _CLASSES.c.oid == _INHERITS.c.inhrelid)
    first = session.scalar(query)
    return datetime.strptime(first, "%Y%m%d").replace(tzinfo=UTC) if first else utc_now()
