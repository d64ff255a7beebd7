"""Numbers of decisions by time and by reason, from counts that the cells add up (`DecisionCount`, `RejectCount`)."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final, Literal, NamedTuple

from sqlalchemy import ColumnElement, func, select
from sqlalchemy.orm import Session

from nac.engine.reasons import Reason, get_reason
from nac.kit.clock import utc_now
from nac.kit.errors import InvalidInput
from nac.kit.ids import TenantId
from nac.models import DecisionCount, RejectCount
from nac.models.log import HOUR_SECONDS, HOURS_KEPT, MINUTE_SECONDS, MINUTES_KEPT

Interval = Literal["minute", "hour", "day"]
_LENGTHS: Final[dict[Interval, timedelta]] = {
    "minute": timedelta(minutes=1),
    "hour": timedelta(hours=1),
    "day": timedelta(days=1),
}
MAX_INTERVALS = 1_500
# Number of intervals without a start of the period.
_DEFAULT_INTERVALS = 60
# Default period of reject reasons. In a longer period, reasons are counted by hour.
_REASONS_PERIOD = timedelta(days=1)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class IntervalCounts(NamedTuple):
    start: datetime
    permitted: int = 0
    quarantined: int = 0
    rejected: int = 0


@dataclass(frozen=True, slots=True)
class ReasonCount:
    reason: Reason
    count: int
    # Fraction of all rejects in the period.
    share: float
    # Start of the minute or hour of the last reject.
    last_at: datetime


@dataclass(frozen=True, slots=True)
class RejectReasons:
    # The counted period: whole minutes or hours.
    since: datetime
    until: datetime
    rejected: int
    # Most frequent first.
    reasons: Sequence[ReasonCount]


def count_decisions(
    session: Session,
    *,
    tenant_id: TenantId,
    interval: Interval = "minute",
    since: datetime | None = None,
    until: datetime | None = None,
    now: datetime | None = None,
) -> list[IntervalCounts]:
    """Count decisions by interval (UTC), oldest first. Intervals without decisions are zero.

    The first interval contains `since`, and the last interval ends at `until` or later. `until` defaults to `now`.
    Without `since`, counts 60 intervals. Raises InvalidInput.
    """
    now = now or utc_now()
    until = until or now
    length = _LENGTHS[interval]
    end = _ceil(until, length)
    first = end - _DEFAULT_INTERVALS * length if since is None else _floor(since, length)
    _require_period(since or first, until)
    number = (end - first) // length
    if number > MAX_INTERVALS:
        raise InvalidInput(
            f"The period has {number} intervals. At most {MAX_INTERVALS} are allowed.",
            place="interval",
            remedy="Use a longer interval or a shorter period.",
        )
    _require_kept(first, length, now, is_given=since is not None)
    found = _count_by_interval(session, tenant_id, interval, first, end)
    starts = (first + each * length for each in range(number))
    return [found.get(start, IntervalCounts(start)) for start in starts]


def _count_by_interval(
    session: Session, tenant_id: TenantId, interval: Interval, first: datetime, end: datetime
) -> dict[datetime, IntervalCounts]:
    start = func.date_trunc(interval, DecisionCount.start_at, "UTC")
    sums = [func.sum(each) for each in (DecisionCount.permitted, DecisionCount.quarantined, DecisionCount.rejected)]
    query = select(start, *sums).where(*_in_period(DecisionCount, tenant_id, interval, first, end)).group_by(start)
    return {row[0]: IntervalCounts(row[0].astimezone(UTC), *map(int, row[1:])) for row in session.execute(query)}


def count_reject_reasons(
    session: Session,
    *,
    tenant_id: TenantId,
    since: datetime | None = None,
    until: datetime | None = None,
    now: datetime | None = None,
) -> RejectReasons:
    """Count rejects by reason, most frequent first.

    `until` defaults to `now`, and `since` to a day before `until`. The period is extended to whole minutes; to whole
    hours if the period is longer than MAX_INTERVALS minutes or Admit has deleted its minutes. Raises InvalidInput.
    """
    now = now or utc_now()
    until = until or now
    begin = until - _REASONS_PERIOD if since is None else since
    _require_period(begin, until)
    by_minute = until - begin < MAX_INTERVALS * _LENGTHS["minute"] and begin >= now - MINUTES_KEPT
    interval: Interval = "minute" if by_minute else "hour"
    first, end = _floor(begin, _LENGTHS[interval]), _ceil(until, _LENGTHS[interval])
    _require_kept(first, _LENGTHS[interval], now, is_given=since is not None)
    total = func.sum(RejectCount.rejected)
    query = (
        select(RejectCount.reason, total, func.max(RejectCount.start_at))
        .where(*_in_period(RejectCount, tenant_id, interval, first, end))
        .group_by(RejectCount.reason)
        .order_by(total.desc(), RejectCount.reason)
    )
    rows = session.execute(query).all()
    rejected = sum(int(number) for _, number, _ in rows)
    return RejectReasons(
        first,
        end,
        rejected,
        [
            ReasonCount(get_reason(code), int(number), round(int(number) / rejected, 4), last.astimezone(UTC))
            for code, number, last in rows
        ],
    )


def _in_period(
    table: type[DecisionCount | RejectCount], tenant_id: TenantId, interval: Interval, first: datetime, end: datetime
) -> list[ColumnElement[bool]]:
    seconds = MINUTE_SECONDS if interval == "minute" else HOUR_SECONDS
    return [table.tenant_id == tenant_id, table.seconds == seconds, table.start_at >= first, table.start_at < end]


def _floor(moment: datetime, length: timedelta) -> datetime:
    return moment.astimezone(UTC) - (moment - _EPOCH) % length


def _ceil(moment: datetime, length: timedelta) -> datetime:
    return moment.astimezone(UTC) + (_EPOCH - moment) % length


def _require_period(since: datetime, until: datetime) -> None:
    if until <= since:
        raise InvalidInput("`until` must be after `since`.", place="until", remedy="Set a later time for `until`.")


def _require_kept(first: datetime, length: timedelta, now: datetime, *, is_given: bool) -> None:
    kept, unit = (MINUTES_KEPT, "minute") if length == _LENGTHS["minute"] else (HOURS_KEPT, "hour")
    if first < now - kept - length:
        raise InvalidInput(
            f"Admit keeps counts by {unit} for {kept.days} days. The period begins earlier.",
            place="since" if is_given else "until",
            remedy="Use a later period" + (", or the interval `hour`." if unit == "minute" else "."),
        )
