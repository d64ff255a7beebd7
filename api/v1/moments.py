"""Moments that are asked with."""

import re
from datetime import UTC, datetime
from typing import Annotated, Final

from pydantic import AfterValidator, AwareDatetime, BeforeValidator, Field
from pydantic_core import PydanticCustomError

EARLIEST: Final = datetime(1970, 1, 1, tzinfo=UTC)
# In whichever time zone it is told, it must stay a date.
LATEST: Final = datetime(9999, 12, 30, tzinfo=UTC)
_WRITTEN_OUT = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d")


def _require_written_out(given: object) -> object:
    """As RFC 3339 5.6 has it. A bare number would be seconds or milliseconds since 1970, whichever its size says."""
    if isinstance(given, datetime) or (isinstance(given, str) and _WRITTEN_OUT.match(given)):
        return given
    raise PydanticCustomError("datetime_type", "not written out")


def _require_reachable(moment: datetime) -> datetime:
    if not EARLIEST <= moment <= LATEST:
        raise ValueError("give a time from 1970 to 9999")
    return moment


Moment = Annotated[AwareDatetime, BeforeValidator(_require_written_out), AfterValidator(_require_reachable)]
# One that may be over.
PastMoment = Annotated[Moment, Field(examples=["2026-01-31T08:00:00Z"])]
