"""Pages by key: a list goes on behind the last row that was given, whatever comes and goes meanwhile.

`next` of a page is opaque: a key, with the order that it is a place in where the list has several.
"""

import base64
import binascii
import json
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from functools import cache
from ipaddress import ip_address
from typing import Annotated, Any, Final, Generic, Literal, TypeVar

from fastapi import Query
from pydantic import AfterValidator, AwareDatetime, BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from api.instant import instant
from nac.db.orders import DOWN, Column, Key, Order, Orders, Span, may_be_null
from nac.db.types import HostAddress, Mac
from nac.errors import InvalidInput

MOST = 1_000
# Of names of 253 octets.
_LONGEST = 1_500
_LARGEST: Final = 2**63 - 1
# PostgreSQL holds no NUL.
_PLAIN: Final = r"^[^\x00]*$"
_AS_JSON: Final = ConfigDict(ser_json_bytes="base64", val_json_bytes="base64")

Item = TypeVar("Item")
Row = TypeVar("Row")
_Limit = Annotated[int, Query(ge=1, le=MOST, description="Rows of the page.")]
_After = Annotated[str, Query(max_length=_LONGEST, description="`next` of the page before.")]


class Page(BaseModel, Generic[Item]):
    items: list[Item] = Field(description="The rows.")
    next: str | None = Field(description="What to give as `after` for the next page; null where there is none.")


class Paging:
    """As a dependency: `limit` and `after` of the query."""

    def __init__(self, limit: _Limit = 100, after: _After = "") -> None:
        self.limit = limit
        self._after = after

    def after(self) -> str:
        """The key that the page begins behind; "" for the first. Raises InvalidInput."""
        key = self._read() if self._after else ""
        if not isinstance(key, str) or bool(key) != bool(self._after) or (key and not key.isprintable()):
            raise no_place()
        return key

    def cursor(self, key: object) -> str:
        return base64.urlsafe_b64encode(json.dumps(key, ensure_ascii=False).encode()).decode().rstrip("=")

    def page(
        self,
        rows: Sequence[Row],
        key: Callable[[Row], str],
        item: Callable[[Row], Item],
    ) -> "Page[Item]":
        """Of rows that were read with a limit of one more than `limit`."""
        shown = rows[: self.limit]
        behind = key(shown[-1]) if len(rows) > self.limit else None
        return Page(items=[item(row) for row in shown], next=self.cursor(behind) if behind else None)

    def _read(self) -> object:
        try:
            return json.loads(base64.urlsafe_b64decode(self._after + "=" * (-len(self._after) % 4)))
        except (binascii.Error, ValueError, RecursionError):
            return None


class SortedPaging(Paging):
    """`sort` as well: a place is one of the order that it was given in."""

    def __init__(self, limit: int, after: str, sort: str) -> None:
        super().__init__(limit, after)
        self.sort = sort

    @property
    def goes_down(self) -> bool:
        return self.sort.startswith(DOWN)

    def cursor(self, key: object) -> str:
        return super().cursor([self.sort, key])

    def _read(self) -> object:
        match super()._read():
            case [str(sort), key] if sort == self.sort:
                return key
            case [str(sort), _] if sort.isprintable():
                raise InvalidInput(
                    f"This is a place in a list that was sorted by {sort[:50]!r}, not by {self.sort!r}.",
                    place="after",
                    remedy="Ask for the first page anew, or with the sort of the page before.",
                )
            case _:
                return None


class OrderedPaging(SortedPaging):
    """In one of the orders that a list is declared to have."""

    def __init__(self, limit: int, after: str, order: Order) -> None:
        super().__init__(limit, after, order.name)
        self._order = order

    @property
    def span(self) -> Span:
        """With one row more than the page, which tells whether there is another page. Raises InvalidInput."""
        return Span(self._order, self.limit + 1, self._key())

    def ordered(
        self,
        rows: Sequence[Row],
        item: Callable[[Row], Item],
        *,
        entity: Callable[[Row], Any] = lambda row: row,
        searched: Key | None = None,
    ) -> Page[Item]:
        """Of rows of `span`; `entity` gives what of a row has the columns that it is sorted by. `searched` is the
        key as far as which rows were looked through, where that is not the end of the list."""
        shown = rows[: self.limit]
        key = self._order.key_of(entity(shown[-1])) if len(rows) > self.limit else searched
        behind = None if key is None else json.loads(_adapter(self._order.columns).dump_json(key))
        return Page(items=[item(row) for row in shown], next=None if behind is None else self.cursor(behind))

    def _key(self) -> Key | None:
        if not self._after:
            return None
        try:
            return _adapter(self._order.columns).validate_json(json.dumps(self._read()))
        except ValidationError as exc:
            raise no_place() from exc


def sorted_by(orders: Orders) -> Callable[..., Awaitable[OrderedPaging]]:
    """As a dependency: `limit`, `after` and `sort` of a list that has these orders."""

    @instant
    async def paging(limit: _Limit = 100, after: _After = "", sort: str = orders.default) -> OrderedPaging:
        return OrderedPaging(limit, after, orders[sort])

    return _with_sort(paging, orders.names, orders.default)


def sorted_by_time(name: str, *, newest_first: bool = True) -> Callable[..., Awaitable[SortedPaging]]:
    """Of a list that goes by moments, up and down, and reads its keys itself."""
    default = DOWN + name if newest_first else name

    @instant
    async def paging(limit: _Limit = 100, after: _After = "", sort: str = default) -> SortedPaging:
        return SortedPaging(limit, after, sort)

    return _with_sort(paging, (name, DOWN + name), default)


Dependency = TypeVar("Dependency", bound=Callable[..., Awaitable[SortedPaging]])


def _with_sort(paging: Dependency, names: Sequence[str], default: str) -> Dependency:
    """What it is to be asked for with is not known before."""
    paging.__annotations__["sort"] = sort_parameter(names, default)
    return paging


def sort_parameter(names: Sequence[str], default: str) -> Any:  # noqa: ANN401 -- a type for FastAPI
    description = f"What the list is in the order of; with a minus from the last to the first. Else: {default}."
    return Annotated[Literal.__getitem__(tuple(names)), Query(description=description)]


@cache
def _adapter(columns: tuple[Column, ...]) -> TypeAdapter[Key]:
    kinds = tuple(_kind(column) for column in columns)
    of_all: Any = tuple[kinds]  # type: ignore[valid-type]
    return TypeAdapter(of_all, config=_AS_JSON)


def _kind(column: Column) -> Any:  # noqa: ANN401 -- a type for pydantic
    """What a value of the column may be that somebody else has written."""
    form = column.type
    kind: Any = form.python_type
    if isinstance(form, Mac):
        kind = Annotated[str, Field(pattern=r"^[0-9a-f]{12}$")]
    elif isinstance(form, HostAddress):
        kind = Annotated[str, AfterValidator(_require_host)]
    elif kind is datetime:
        kind = AwareDatetime
    elif kind is int:
        kind = Annotated[int, Field(ge=-_LARGEST, le=_LARGEST)]
    elif kind is str:
        kind = Annotated[str, Field(pattern=_PLAIN)]
    return kind | None if may_be_null(column) else kind


def _require_host(text: str) -> str:
    if "%" in text:
        raise ValueError("of one link alone")
    return str(ip_address(text))


def no_place() -> InvalidInput:
    return InvalidInput("This is no place in a list.", place="after", remedy="Give `next` of the page before.")


def moment_key(at: datetime, row_id: str) -> str:
    return f"{at.isoformat()} {row_id}"


def moment_of(text: str) -> tuple[datetime, str] | None:
    """Of a list in the order of moments: a key that `moment_key` made."""
    at, _, row_id = text.partition(" ")
    try:
        moment = datetime.fromisoformat(at) if text else None
    except ValueError as exc:
        raise no_place() from exc
    if moment is not None and moment.tzinfo is None:
        raise no_place()
    return None if moment is None else (moment, row_id)
