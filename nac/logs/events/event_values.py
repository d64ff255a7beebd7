"""Conversion of values for events.

Each result has a limited length. Values from the journal and from PostgreSQL give equal results.
"""

import ipaddress
from collections.abc import Iterable
from datetime import UTC, datetime
from functools import lru_cache
from typing import NamedTuple
from uuid import UUID

from nac.kit.mac import display_mac
from nac.logs.events.document import MAX_MESSAGE, MAX_TEXT, MAX_VALUES
from nac.sessions.decisions.recorded_requests import from_microseconds, to_microseconds


class EventTenant(NamedTuple):
    id: str
    slug: str


def clip_text(value: str) -> str:
    return value if len(value) <= MAX_TEXT else value[: MAX_TEXT - 3] + "..."


def clip_texts(values: Iterable[str]) -> tuple[str, ...]:
    return tuple([clip_text(value) for value in values][:MAX_VALUES])


def clip_line(value: str) -> str:
    """Return a message in one line of limited length. Spaces replace line breaks and control characters."""
    if not value.isprintable():
        value = "".join(c if c.isprintable() else " " for c in value)
    return value if len(value) <= MAX_MESSAGE else value[: MAX_MESSAGE - 3] + "..."


def format_moment(value: datetime | int) -> str:
    """Format a time (aware datetime or epoch microseconds) in the notation of events: UTC, with microseconds."""
    at = from_microseconds(value) if isinstance(value, int) else value.astimezone(UTC)
    return at.replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"


def format_optional_moment(value: datetime | None) -> str | None:
    return None if value is None else format_moment(value)


def row_key(at: datetime | int, number: int) -> str:
    """Return a unique key of a log row, from the row's time and id (`number`)."""
    return f"{at if isinstance(at, int) else to_microseconds(at)}-{number}"


@lru_cache(maxsize=4_096)
def format_mac(digits: str | None) -> str | None:
    """Format 12 hexadecimal digits as a MAC address such as AA-BB-CC-DD-EE-FF (RFC 7042 2.1)."""
    return display_mac(digits).upper().replace(":", "-") if digits else None


@lru_cache(maxsize=4_096)
def format_address(value: str | None) -> str | None:
    """Return the IP address, or None if it is invalid."""
    try:
        return str(ipaddress.ip_address((value or "").partition("%")[0]))
    except ValueError:
        return None


def format_prefix(value: str) -> str:
    """Return the IPv6 prefix, or "" if it is invalid."""
    try:
        return str(ipaddress.IPv6Network(value, strict=False)) if "/" in value else ""
    except ValueError:
        return ""


def format_uuid(value: UUID | str | None) -> str | None:
    return str(value) if value else None


def clip_count(value: int | None, most: int = 2**63 - 1) -> int | None:
    return None if value is None else min(max(0, value), most)
