"""Search of a log with daily partitions, from the newest or the oldest row.

A search ends early when the time for one response is over. A log can have a partition for each day of several years,
and matches can be rare. PostgreSQL plans a query for all partitions that it can reach. The search therefore sends
several queries, each for a range of days. Each range of days is longer than the range before it. Without an index for
the filter, a query reads at most a few thousand rows. The next search continues at the row where the previous search
stopped.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from time import monotonic
from typing import Any, Generic, NamedTuple, TypeVar

from sqlalchemy import Select, String, cast, column, func, literal, select, table, tuple_
from sqlalchemy.dialects.postgresql import REGCLASS
from sqlalchemy.orm import Session

from nac.kit.clock import utc_now
from nac.kit.db import set_for_transaction
from nac.kit.ids import TenantId
from nac.models import AccountingLog, AuthLog

# Time and id of a log row.
LogKey = tuple[datetime, int]
LogTable = type[AuthLog] | type[AccountingLog]
Row = TypeVar("Row")
Query = TypeVar("Query", bound=Select[*tuple[Any, ...]])

# After this time, the search starts no further query. A page may take 150 ms, and the last query can take as long as
# all earlier queries together.
BUDGET_SECONDS = 0.05
# Number of rows that a query without an index reads before the search checks the time.
SLICE_ROWS = 4_000
_INITIAL_DAYS, _CONTINUATION_DAYS, _MAX_DAYS, _GROWTH = 2, 16, 64, 4
_EVER, _NEVER = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)
_INHERITS = table("pg_inherits", column("inhrelid"), column("inhparent"))
_CLASSES = table("pg_class", column("oid"), column("relname"))


class LogStretch(NamedTuple):
    """Range of log rows: the rows after `before`, up to the row `last` (included).

    A value of None means that the range has no limit on that side. The rows are ordered from the newest row, or with
    `oldest_first` from the oldest row.
    """

    before: LogKey | None
    last: LogKey | None
    oldest_first: bool = False


@dataclass(frozen=True, slots=True)
class LogSearchResult(Generic[Row]):
    rows: Sequence[Row]
    # Key at which the next search continues. None if the search is complete.
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
    """Search a log. `look` returns the first matching rows of a range.

    `reads_rows` means that no index fits the filter. The search begins after the row `before` and goes back to `until`,
    inclusive. With `oldest_first`, the search goes forward and ends before `until`.
    """
    # Plan each query with its values. A prepared plan ignores the range, and would read the log from its newest row.
    set_for_transaction(session, plan_cache_mode="force_custom_plan")
    found: list[Row] = []
    deadline = monotonic() + BUDGET_SECONDS
    reach = _OldestFirstWindow(session, log, until) if oldest_first else _NewestFirstWindow(session, log, until)
    # If a search continues, the previous search found little, so begin with a longer range of days.
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
        # The first range also contains rows with a future time, which come from wrong clocks.
        self._now = utc_now()

    def end(self, before: LogKey | None, days: int) -> datetime | None:
        """Return the earliest time of a range that begins at `before` and has this many days.

        Returns None if the range has no limit.
        """
        top = min(before[0], self._now) if before else self._now
        end = top - timedelta(days=days)
        if self._floor is None and (before is not None or days > _INITIAL_DAYS):
            self._floor = _oldest_partition_day(self._session, self._log)
        # The default partition contains the rows that are older than all other partitions.
        return self._until if self._floor is not None and end <= self._floor else end


class _OldestFirstWindow:
    def __init__(self, session: Session, log: LogTable, until: datetime | None) -> None:
        self._session, self._log, self._until = session, log, until
        # The last range also contains rows with a future time.
        self._ceiling = min(until or _NEVER, utc_now())

    def end(self, before: LogKey | None, days: int) -> datetime | None:
        """Return the latest time of a range of this many days.

        The first range also contains the rows of the default partition, which are older than all other partitions.
        """
        start = max(_oldest_partition_day(self._session, self._log), before[0] if before else _EVER)
        return self._until if start >= self._ceiling - timedelta(days=days) else start + timedelta(days=days)


def restrict_to_stretch(query: Query, log: LogTable, stretch: LogStretch) -> Query:
    """Restrict a query to a range. PostgreSQL uses only the conditions on `at` to exclude partitions."""
    low, high = (stretch.before, stretch.last) if stretch.oldest_first else (stretch.last, stretch.before)
    key, excluded = tuple_(log.at, log.id), stretch.before
    if high is not None:
        query = query.where(log.at <= high[0], key < high if high is excluded else key <= high)
    if low is not None:
        query = query.where(log.at >= low[0], key > low if low is excluded else key >= low)
    return query.order_by(*(each.asc() if stretch.oldest_first else each.desc() for each in (log.at, log.id)))


def _slice_end_key(session: Session, log: LogTable, tenant_id: TenantId, stretch: LogStretch) -> LogKey | None:
    """Return the key of row number SLICE_ROWS of the range, or None. Reads only the index."""
    query = restrict_to_stretch(select(log.at, log.id).where(log.tenant_id == tenant_id), log, stretch)
    row = session.execute(query.offset(SLICE_ROWS - 1).limit(1)).one_or_none()
    return None if row is None else (row[0], row[1])


def _oldest_partition_day(session: Session, log: LogTable) -> datetime:
    parent = cast(literal(log.__tablename__, String()), REGCLASS)
    day = func.substring(_CLASSES.c.relname, "_([0-9]{8})$")
    query = select(func.min(day)).where(_INHERITS.c.inhparent == parent, _CLASSES.c.oid == _INHERITS.c.inhrelid)
    first = session.scalar(query)
    return datetime.strptime(first, "%Y%m%d").replace(tzinfo=UTC) if first else utc_now()
