"""Types of options for times and durations."""

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import TypeVar

import click

from nac.kit.clock import utc_now

F = TypeVar("F", bound=Callable[..., object])

_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
_AGO = re.compile(r"([0-9]{1,4})([smhd])")


class SinceType(click.ParamType[datetime]):
    """Type of an option for an age (90s, 15m, 1h, 2d) or a date with optional time.

    Without offset, the time is in UTC.
    """

    name = "AGO|DATE"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        if isinstance(value, datetime):
            return value
        text = str(value)
        if ago := _AGO.fullmatch(text):
            return utc_now() - timedelta(**{_UNITS[ago[2]]: int(ago[1])})
        try:
            moment = datetime.fromisoformat(text)
        except ValueError:
            self.fail(f"{text!r} is neither an age such as 1h or 2d nor a date such as 2026-01-31.", param, ctx)
        return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


class DurationType(click.ParamType[timedelta]):
    """Type of an option for a duration, such as 90s, 15m, 1h or 2d."""

    name = "TIME"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> timedelta:
        if isinstance(value, timedelta):
            return value
        length = _AGO.fullmatch(str(value))
        if length is None:
            self.fail(f"{value!r} is not a duration such as 15m or 2d.", param, ctx)
        return timedelta(**{_UNITS[length[2]]: int(length[1])})


def moment_option(*names: str, help: str) -> Callable[[F], F]:  # noqa: A002 -- click's own word for it
    """Return an option for a date with optional time in UTC."""
    return click.option(*names, type=click.DateTime(), callback=_in_utc, help=help)


def _in_utc(ctx: click.Context, param: click.Parameter, value: datetime | None) -> datetime | None:
    return value and value.replace(tzinfo=UTC)
