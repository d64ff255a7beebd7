"""Timestamps in requests."""

import re
from datetime import UTC, datetime
from typing import Annotated, Final

from pydantic import AfterValidator, AwareDatetime, BeforeValidator, Field
from pydantic_core import PydanticCustomError

EARLIEST: Final = datetime(1970, 1, 1, tzinfo=UTC)
# These two times are valid dates in every time zone.
LATEST: Final = datetime(9999, 12, 30, tzinfo=UTC)
_RFC_3339 = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d")


def _require_rfc_3339(value: object) -> object:
    """Require a timestamp in the format of RFC 3339 5.6.

    A bare number is ambiguous, because the number can be seconds or milliseconds since 1970.
    """
    if isinstance(value, datetime) or (isinstance(value, str) and _RFC_3339.match(value)):
        return value
    raise PydanticCustomError("datetime_type", "not an RFC 3339 timestamp")


def _require_in_range(moment: datetime) -> datetime:
    if not EARLIEST <= moment <= LATEST:
        raise ValueError("give a time from 1970 to 9999")
    return moment


Moment = Annotated[AwareDatetime, BeforeValidator(_require_rfc_3339), AfterValidator(_require_in_range)]
# A time that can be in the past.
PastMoment = Annotated[Moment, Field(examples=["2026-01-31T08:00:00Z"])]
