"""Pages by key: a list goes on behind the last row that was given, whatever comes and goes meanwhile."""

import base64
import binascii
import json
import re
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Annotated, Generic, TypeVar
from uuid import UUID

from fastapi import Query
from pydantic import BaseModel

from nac.errors import InvalidInput

MOST = 1_000
# Of names of 253 octets.
_LONGEST = 1_500
_NUMBER = re.compile(r"[0-9]{1,9}")

Item = TypeVar("Item")
Row = TypeVar("Row")


class Page(BaseModel, Generic[Item]):
    items: list[Item]
    # What to give as `after` for the next page; null where there is none.
    next: str | None


class Paging:
    """As a dependency: `limit` and `after` of the query."""

    def __init__(
        self,
        limit: Annotated[int, Query(ge=1, le=MOST, description="Rows of the page.")] = 100,
        after: Annotated[str, Query(max_length=_LONGEST, description="`next` of the page before.")] = "",
    ) -> None:
        self.limit = limit
        self._after = after

    def after(self) -> str:
        """The key that the page begins behind; "" for the first. Raises InvalidInput."""
        if not self._after:
            return ""
        try:
            key = json.loads(base64.urlsafe_b64decode(self._after + "=" * (-len(self._after) % 4)))
        except (binascii.Error, ValueError, RecursionError):
            key = None
        if not isinstance(key, str) or not key or not key.isprintable():
            raise InvalidInput("This is no place in a list.", place="after", remedy="Give `next` of the page before.")
        return key

    def page(
        self,
        rows: Sequence[Row],
        key: Callable[[Row], str],
        item: Callable[[Row], Item],
        *,
        searched: str | None = None,
    ) -> "Page[Item]":
        """Of rows that were read with a limit of one more than `limit`. `searched` is the key down to which rows were
        looked through, where that is not the end of the list."""
        shown = rows[: self.limit]
        behind = key(shown[-1]) if len(rows) > self.limit else searched
        return Page(items=[item(row) for row in shown], next=cursor(behind) if behind else None)


def cursor(key: str) -> str:
    return base64.urlsafe_b64encode(json.dumps(key).encode()).decode().rstrip("=")


def uuid_key(text: str) -> UUID | None:
    """Of a list in the order of ids."""
    try:
        return UUID(text) if text else None
    except ValueError as exc:
        raise InvalidInput("This is no place in this list.", place="after") from exc


def named_id_key(name: str, row_id: UUID) -> str:
    return f"{row_id} {name}"


def named_id(text: str) -> tuple[str, UUID] | None:
    """Of a list in the order of names that may come twice: a key that `named_id_key` made."""
    row_id, _, name = text.partition(" ")
    key = uuid_key(row_id)
    return None if key is None else (name, key)


def numbered_id_key(row_id: UUID, number: int) -> str:
    return f"{row_id} {number}"


def numbered_id(text: str) -> tuple[UUID, int] | None:
    """Of a list in the order of ids and numbers within: a key that `numbered_id_key` made."""
    row_id, _, number = text.partition(" ")
    key = uuid_key(row_id)
    if key is None:
        return None
    if not _NUMBER.fullmatch(number):
        raise InvalidInput("This is no place in this list.", place="after")
    return key, int(number)


def moment_key(at: datetime, row_id: str) -> str:
    return f"{at.isoformat()} {row_id}"


def moment_of(text: str) -> tuple[datetime, str] | None:
    """Of a list in the order of moments: a key that `moment_key` made."""
    at, _, row_id = text.partition(" ")
    try:
        moment = datetime.fromisoformat(at) if text else None
    except ValueError as exc:
        raise InvalidInput("This is no place in this list.", place="after") from exc
    if moment is not None and moment.tzinfo is None:
        raise InvalidInput("This is no place in this list.", place="after")
    return None if moment is None else (moment, row_id)
