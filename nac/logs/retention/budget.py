"""Calculates which days of a log exceed its budget, and when. Pure functions of sizes and dates."""

from collections.abc import Mapping
from datetime import date, timedelta

# Full days before today that determine the growth rate.
_GROWTH_DAYS = 7
_DAY = timedelta(days=1)


def first_kept_day(sizes: Mapping[date, int], *, since: date, budget: int) -> date:
    """Return the first day to keep so that the newest days fit in `budget` (bytes); `since` if all days fit.

    If not even the newest day fits, returns the day after it.
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
    """Return when the log exceeds `budget` at last week's growth rate; None if it does not.

    Assumes that each day adds the average of last week and removes the oldest day.
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
