"""Timestamps in requests."""

import re
from datetime import UTC, datetime
from typing import Annotated, Final

from pydantic import AfterValidator, AwareDatetime, BeforeValidator, Field
from pydantic_core import PydanticCustomError

EARLIEST: Final = datetime(1970, 1, 1, tzinfo=UTC)
# Stays a valid date in each time zone.
LATEST: Final = datetime(9999, 12, 30, tzinfo=UTC)
_WRITTEN_OUT = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d")


def _require_written_out(value: object) -> object:
    """Require the form of RFC 3339 5.6.

    A bare number is ambiguous: seconds or milliseconds since 1970.
    """
    if isinstance(value, datetime) or (isinstance(value, str) and _WRITTEN_OUT.match(value)):
        return value
    raise PydanticCustomError("datetime_type", "not an RFC 3339 timestamp")


def _require_reachable(moment: datetime) -> datetime:
    if not EARLIEST <= moment <= LATEST:
        raise ValueError("give a time from 1970 to 9999")
    return moment


Moment = Annotated[AwareDatetime, BeforeValidator(_require_written_out), AfterValidator(_require_reachable)]
# Can be in the past.
PastMoment = Annotated[Moment, Field(examples=["2026-01-31T08:00:00Z"])]
