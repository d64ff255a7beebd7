"""Values as events carry them: bounded, and the same whether they come from the journal or from PostgreSQL."""

import ipaddress
from collections.abc import Iterable
from datetime import UTC, datetime
from functools import lru_cache
from typing import NamedTuple
from uuid import UUID

from nac.decisions.recorded import microseconds_of, moment_of
from nac.events.document import MAX_MESSAGE, MAX_TEXT, MAX_VALUES
from nac.mac import display_mac


class Tenant(NamedTuple):
    id: str
    slug: str


def text(value: str) -> str:
    return value if len(value) <= MAX_TEXT else value[: MAX_TEXT - 3] + "..."


def texts(values: Iterable[str]) -> tuple[str, ...]:
    return tuple([text(value) for value in values][:MAX_VALUES])


def line(value: str) -> str:
    """A message: without what breaks a line or steers a terminal."""
    if not value.isprintable():
        value = "".join(c if c.isprintable() else " " for c in value)
    return value if len(value) <= MAX_MESSAGE else value[: MAX_MESSAGE - 3] + "..."


def moment(value: datetime | int) -> str:
    """`value` is aware, or epoch microseconds."""
    at = moment_of(value) if isinstance(value, int) else value.astimezone(UTC)
    return at.replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"


def optional_moment(value: datetime | None) -> str | None:
    return None if value is None else moment(value)


def key(at: datetime | int, number: int) -> str:
    """Time and number of a row, which make it one of all that ever were."""
    return f"{at if isinstance(at, int) else microseconds_of(at)}-{number}"


@lru_cache(maxsize=4_096)
def mac(digits: str | None) -> str | None:
    """RFC 7042 2.1."""
    return display_mac(digits).upper().replace(":", "-") if digits else None


@lru_cache(maxsize=4_096)
def address(value: str | None) -> str | None:
    """None where it is no IP address."""
    try:
        return str(ipaddress.ip_address((value or "").partition("%")[0]))
    except ValueError:
        return None


def prefix(value: str) -> str:
    """ "" where it is no IPv6 prefix."""
    try:
        return str(ipaddress.IPv6Network(value, strict=False)) if "/" in value else ""
    except ValueError:
        return ""


def uuid(value: UUID | str | None) -> str | None:
    return str(value) if value else None


def count(value: int | None, most: int = 2**63 - 1) -> int | None:
    return None if value is None else min(max(0, value), most)
