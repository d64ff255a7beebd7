"""Which days go where a log is larger than its budget, and when that is to be expected. Pure: sizes in, dates out."""

from collections.abc import Mapping
from datetime import date, timedelta

# Full days before today by which growth is told.
_GROWTH_DAYS = 7
_DAY = timedelta(days=1)


def first_kept_day(sizes: Mapping[date, int], *, since: date, budget: int) -> date:
    """The first day that stays so that the newest days fill `budget` (bytes); `since` where all from there on fit.

    At worst the day after the newest: then not even that one fits.
    """
    room = budget
    first = since
    for day in sorted((day for day in sizes if day >= since), reverse=True):
        room -= sizes[day]
        if room < 0:
            return day + _DAY
    return first


def sum_bytes(sizes: Mapping[date, int], *, since: date) -> int:
    return sum(size for day, size in sizes.items() if day >= since)


def predict_exceeded_day(sizes: Mapping[date, int], *, today: date, days: int, budget: int) -> date | None:
    """When what is kept for `days` outgrows `budget` at the rate of the last week; None where it does not.

    Each day brings as many bytes as those days did on average, and takes the oldest day along.
    """
    recent = [sizes.get(today - n * _DAY, 0) for n in range(1, _GROWTH_DAYS + 1)]
    known = [day for day in sizes if day < today]
    growth = sum(recent) / min(_GROWTH_DAYS, max(1, (today - min(known)).days)) if known else 0.0
    kept = float(sum_bytes(sizes, since=today - days * _DAY))
    for ahead in range(days + 1):
        if kept > budget:
            return today + ahead * _DAY
        kept += growth - sizes.get(today + ahead * _DAY - days * _DAY, 0)
    return None
