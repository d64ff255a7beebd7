"""Time windows: weekdays, times of day and dates, in the site's local time.

Local time is a number: the epoch seconds at which UTC shows the same date and time as the site's clock. So windows
follow daylight saving time: a skipped time does not occur, a repeated time occurs twice.
"""

import re
from collections.abc import Callable
from datetime import UTC, date, datetime, tzinfo
from typing import NamedTuple
from zoneinfo import ZoneInfo

WEEKDAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_DAY_SECONDS = 86_400
_EVERY_DAY = (1 << 7) - 1
# 1970-01-01 was a Thursday.
_WEEKDAY_OF_EPOCH = 3
_EPOCH = date(1970, 1, 1).toordinal()
_FIRST_DAY, _LAST_DAY = date.min.toordinal() - _EPOCH, date.max.toordinal() - _EPOCH
_TIME = re.compile(r"([01][0-9]|2[0-3]):([0-5][0-9])\Z|24:00\Z", re.ASCII)
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}\Z", re.ASCII)
_KEYS = ("days", "from", "to", "dates")


class TimeWindow(NamedTuple):
    """A time window. `start` and `end` are seconds of a day, `end` exclusive.

    `first` and `last` are days since 1970-01-01, inclusive.

    If `end` is before `start`, the window ends on the next day and belongs to the day of its start.
    """

    # Bit mask of weekdays; bit 0 is Monday.
    days: int = _EVERY_DAY
    start: int = 0
    end: int = _DAY_SECONDS
    first: int = _FIRST_DAY
    last: int = _LAST_DAY

    @property
    def is_over_midnight(self) -> bool:
        return self.end < self.start

    def within(self, other: "TimeWindow") -> bool:
        """Whether `other` includes this window; False if that is not certain."""
        same_shape = self.is_over_midnight == other.is_over_midnight
        return (
            same_shape
            and other.start <= self.start
            and self.end <= other.end
            and self.days & ~other.days == 0
            and other.first <= self.first
            and self.last <= other.last
        )

    def excludes(self, other: "TimeWindow") -> bool:
        """Whether the windows do not overlap; False if that is not certain."""
        if self.is_over_midnight or other.is_over_midnight:
            return False
        return (
            not self.days & other.days
            or self.end <= other.start
            or other.end <= self.start
            or self.last < other.first
            or other.last < self.first
        )


def parse_window(value: object) -> TimeWindow:
    """Parse a window. Raises ValueError with a message that lists every mistake."""
    if not isinstance(value, dict) or not value:
        raise ValueError('must be an object with at least one of "days", "from", "to", "dates"')
    wrong = [
        f"unknown key {str(key)[:64]!r}; keys of a window: {', '.join(_KEYS)}" for key in value if key not in _KEYS
    ]
    days, start, end, first, last = TimeWindow()
    try:
        days = _parse_days(value["days"]) if "days" in value else days
    except ValueError as error:
        wrong.append(str(error))
    for key, read, place in (("from", _parse_time, "from"), ("to", _parse_time, "to")):
        try:
            if key in value:
                moment = read(value[key], place)
                start, end = (moment, end) if key == "from" else (start, moment)
        except ValueError as error:
            wrong.append(str(error))
    try:
        first, last = _parse_dates(value["dates"]) if "dates" in value else (first, last)
    except ValueError as error:
        wrong.append(str(error))
    if not wrong and start == end:
        wrong.append('"from" and "to" are equal; for the whole day, omit "from" and "to"')
    if wrong:
        raise ValueError("; ".join(wrong))
    return TimeWindow(days, start, end, first, last)


def build_window_test(window: TimeWindow) -> Callable[[int], bool]:
    """Return a function that tests whether a local time lies in the window."""
    days, start, end, first, last = window
    over_midnight = window.is_over_midnight

    def test(wall: int) -> bool:
        day, second = divmod(wall, _DAY_SECONDS)
        if over_midnight:
            if second < end:
                day -= 1
            elif second < start:
                return False
        elif not start <= second < end:
            return False
        return first <= day <= last and days >> (day + _WEEKDAY_OF_EPOCH) % 7 & 1 == 1

    return test


def build_wall_clock(zone: tzinfo) -> Callable[[int], int]:
    """Return a function that converts epoch seconds to local time.

    The function raises OverflowError, ValueError or OSError after the year 9999.
    """

    def wall(at: int) -> int:
        offset = datetime.fromtimestamp(at, zone).utcoffset()
        return at + (offset.days * _DAY_SECONDS + offset.seconds if offset is not None else 0)

    return wall


def format_wall_time(wall: int) -> str:
    moment = datetime.fromtimestamp(wall, UTC)
    return f"{WEEKDAYS[moment.weekday()]} {moment:%Y-%m-%d %H:%M:%S}"


def parse_time_zone(name: str) -> tzinfo:
    """Return the time zone of an IANA name. Raises ValueError with a message for the author of the policy."""
    if name == "UTC":
        return UTC
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError) as exc:
        # An unknown name raises ZoneInfoNotFoundError, a KeyError. The name of a folder, or an invalid name, raises
        # OSError or ValueError.
        raise ValueError(f"unknown time zone {name!r}; use an IANA name such as Europe/Berlin") from exc


def _parse_days(value: object) -> int:
    if not isinstance(value, list) or not value or not all(isinstance(day, str) and day in WEEKDAYS for day in value):
        raise ValueError(f'"days" must be a list of at least one of: {", ".join(WEEKDAYS)}')
    return sum(1 << WEEKDAYS.index(day) for day in set(value))


def _parse_time(value: object, key: str) -> int:
    found = _TIME.match(value) if isinstance(value, str) else None
    if found is None or (key == "from" and value == "24:00"):
        until = "24:00" if key == "to" else "23:59"
        raise ValueError(f'"{key}" must be a time of day in quotes, from "00:00" to "{until}"')
    return _DAY_SECONDS if found[1] is None else int(found[1]) * 3600 + int(found[2]) * 60


def _parse_dates(value: object) -> tuple[int, int]:
    if not isinstance(value, dict) or not value or not value.keys() <= {"from", "to"}:
        raise ValueError('"dates" must be an object with "from", "to" or both')
    first = _parse_date(value["from"]) if "from" in value else _FIRST_DAY
    last = _parse_date(value["to"]) if "to" in value else _LAST_DAY
    if last < first:
        raise ValueError('"to" of "dates" is before "from"')
    return first, last


def _parse_date(value: object) -> int:
    try:
        if isinstance(value, str) and _DATE.match(value):
            return date.fromisoformat(value).toordinal() - _EPOCH
    except ValueError:
        pass
    raise ValueError(f'{str(value)[:32]!r} is not a date; write a date as "2026-12-24"')
