"""Pages of lists. The next page starts after the key of the last returned row, even if rows change in between.

`next` is an opaque cursor, which contains the key. If the list has several sort orders, the cursor also contains the
order.
"""

import base64
import binascii
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from functools import cache
from ipaddress import ip_address
from typing import Annotated, Any, Final, Generic, Literal, TypeVar
from uuid import UUID

from fastapi import Query
from pydantic import AfterValidator, AwareDatetime, BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from api.validation_messages import PLAIN_PATTERN
from nac.kit.db.base import HostAddress, Mac
from nac.kit.db.sort_orders import DESCENDING_PREFIX, PageSpan, SortColumn, SortKey, SortOrder, SortOrders, is_nullable
from nac.kit.errors import InvalidInput

MAX_ROWS = 1_000
# Fits names of 253 octets.
_MAX_CURSOR_LENGTH = 1_500
_MAX_BIGINT: Final = 2**63 - 1
_JSON_CONFIG: Final = ConfigDict(ser_json_bytes="base64", val_json_bytes="base64")

Item = TypeVar("Item")
Row = TypeVar("Row")
_Limit = Annotated[int, Query(ge=1, le=MAX_ROWS, description="Maximum number of items in the page.")]
_After = Annotated[str, Query(max_length=_MAX_CURSOR_LENGTH, description="Value of `next` from the previous page.")]


class Page(BaseModel, Generic[Item]):
    items: list[Item] = Field(description="Items of the page.")
    next: str | None = Field(description="Cursor of the next page, to send in `after`; null on the last page.")


class Paging:
    """Query parameters `limit` and `after`, as a FastAPI dependency."""

    def __init__(self, limit: _Limit = 100, after: _After = "") -> None:
        self.limit = limit
        self._after = after

    def after(self) -> str:
        """Return the key of the last row before the page; "" for the first page. Raises InvalidInput."""
        key = self._read() if self._after else ""
        if not isinstance(key, str) or bool(key) != bool(self._after) or (key and not key.isprintable()):
            raise build_invalid_place()
        return key

    def cursor(self, key: object) -> str:
        return base64.urlsafe_b64encode(json.dumps(key, ensure_ascii=False).encode()).decode().rstrip("=")

    def page(
        self,
        rows: Sequence[Row],
        key: Callable[[Row], str],
        item: Callable[[Row], Item],
    ) -> "Page[Item]":
        """Return a page of the rows. The caller read one row more than `limit` to detect the next page."""
        page_rows = rows[: self.limit]
        behind = key(page_rows[-1]) if len(rows) > self.limit else None
        return Page(items=[item(row) for row in page_rows], next=self.cursor(behind) if behind else None)

    def _read(self) -> object:
        try:
            return json.loads(base64.urlsafe_b64decode(self._after + "=" * (-len(self._after) % 4)))
        except (binascii.Error, ValueError, RecursionError):
            return None


class SortedPaging(Paging):
    """Query parameters `limit`, `after` and `sort`, as a FastAPI dependency.

    A cursor is valid only for one sort order.
    """

    def __init__(self, limit: int, after: str, sort: str) -> None:
        super().__init__(limit, after)
        self.sort = sort

    @property
    def goes_down(self) -> bool:
        return self.sort.startswith(DESCENDING_PREFIX)

    def cursor(self, key: object) -> str:
        return super().cursor([self.sort, key])

    def _read(self) -> object:
        match super()._read():
            case [str(sort), key] if sort == self.sort:
                return key
            case [str(sort), _] if sort.isprintable():
                raise InvalidInput(
                    f"The cursor in `after` belongs to the sort order {sort[:50]!r}, not {self.sort!r}.",
                    place="after",
                    remedy="Repeat the request without `after`, or use the previous `sort`.",
                )
            case _:
                return None


class OrderedPaging(SortedPaging):
    """Page of a list that has several sort orders."""

    def __init__(self, limit: int, after: str, order: SortOrder) -> None:
        super().__init__(limit, after, order.name)
        self._order = order

    @property
    def span(self) -> PageSpan:
        """Return which rows to read. The span has one row more than the page, to detect whether a next page exists.

        Raises InvalidInput.
        """
        return PageSpan(self._order, self.limit + 1, self._key())

    def ordered(
        self,
        rows: Sequence[Row],
        item: Callable[[Row], Item],
        *,
        entity: Callable[[Row], Any] = lambda row: row,
        searched: SortKey | None = None,
    ) -> Page[Item]:
        """Return a page of `rows`, which the caller read from `span`.

        `entity` returns the object with the sort columns from a row. `searched` is the key of the last searched row, if
        the search did not reach the end of the list.
        """
        page_rows = rows[: self.limit]
        key = self._order.row_key(entity(page_rows[-1])) if len(rows) > self.limit else searched
        behind = None if key is None else json.loads(_build_key_adapter(self._order.columns).dump_json(key))
        return Page(items=[item(row) for row in page_rows], next=None if behind is None else self.cursor(behind))

    def _key(self) -> SortKey | None:
        if not self._after:
            return None
        try:
            return _build_key_adapter(self._order.columns).validate_json(json.dumps(self._read()))
        except ValidationError as exc:
            raise build_invalid_place() from exc


class ComputedPaging(SortedPaging):
    """Page of a list that is sorted by computed values.

    The key of an item has its value, which can be None, and its id. `kind` is the type of the values.
    """

    def __init__(self, limit: int, after: str, sort: str, kind: type) -> None:
        super().__init__(limit, after, sort)
        self._kind = kind

    @property
    def order(self) -> str:
        return self.sort.removeprefix(DESCENDING_PREFIX)

    def key(self) -> tuple[Any, UUID] | None:
        """Return the key of the last item before the page; None for the first page. Raises InvalidInput."""
        if not self._after:
            return None
        try:
            return _build_value_adapter(self._kind).validate_json(json.dumps(self._read()))
        except ValidationError as exc:
            raise build_invalid_place() from exc

    def computed(self, items: list[Item], following: tuple[Any, UUID] | None) -> Page[Item]:
        """Return a page. `following` is the key of its last item, or None on the last page."""
        return Page(items=items, next=None if following is None else self.cursor([following[0], str(following[1])]))


def require_paging(orders: SortOrders) -> Callable[..., Awaitable[OrderedPaging]]:
    """Return a dependency with `limit`, `after` and `sort` for a list with these sort orders."""

    async def paging(limit: _Limit = 100, after: _After = "", sort: str = orders.default) -> OrderedPaging:
        return OrderedPaging(limit, after, orders[sort])

    return _annotate_sort(paging, orders.names, orders.default)


def require_computed_paging(kinds: Mapping[str, type]) -> Callable[..., Awaitable[ComputedPaging]]:
    """Return a dependency for a list that is sorted by computed values. `kinds` has the type of each order's values.

    The first order is the default.
    """
    default = next(iter(kinds))

    async def paging(limit: _Limit = 100, after: _After = "", sort: str = default) -> ComputedPaging:
        return ComputedPaging(limit, after, sort, kinds[sort.removeprefix(DESCENDING_PREFIX)])

    return _annotate_sort(paging, [name for each in kinds for name in (each, DESCENDING_PREFIX + each)], default)


def require_time_paging(name: str, *, newest_first: bool = True) -> Callable[..., Awaitable[SortedPaging]]:
    """Return a dependency for a list that is sorted by time, in both directions.

    The route parses the keys of cursors.
    """
    default = DESCENDING_PREFIX + name if newest_first else name

    async def paging(limit: _Limit = 100, after: _After = "", sort: str = default) -> SortedPaging:
        return SortedPaging(limit, after, sort)

    return _annotate_sort(paging, (name, DESCENDING_PREFIX + name), default)


Dependency = TypeVar("Dependency", bound=Callable[..., Awaitable[SortedPaging]])


def _annotate_sort(paging: Dependency, names: Sequence[str], default: str) -> Dependency:
    """Set the type of the parameter `sort`, because the sort orders of each list are different."""
    paging.__annotations__["sort"] = build_sort_parameter(names, default)
    return paging


def build_sort_parameter(names: Sequence[str], default: str) -> Any:  # noqa: ANN401 -- a type for FastAPI
    description = f"Sort order; a leading minus reverses it. Default: {default}."
    return Annotated[Literal.__getitem__(tuple(names)), Query(description=description)]


@cache
def _build_key_adapter(columns: tuple[SortColumn, ...]) -> TypeAdapter[SortKey]:
    kinds = tuple(_build_column_type(column) for column in columns)
    of_all: Any = tuple[kinds]  # type: ignore[valid-type]
    return TypeAdapter(of_all, config=_JSON_CONFIG)


@cache
def _build_value_adapter(kind: type) -> TypeAdapter[tuple[Any, UUID]]:
    return TypeAdapter(tuple[kind | None, UUID])  # type: ignore[valid-type]


def _build_column_type(column: SortColumn) -> Any:  # noqa: ANN401 -- a type for pydantic
    """Return the type of a column's values, to validate a cursor from a client."""
    form = column.type
    kind: Any = form.python_type
    if isinstance(form, Mac):
        kind = Annotated[str, Field(pattern=r"^[0-9a-f]{12}$")]
    elif isinstance(form, HostAddress):
        kind = Annotated[str, AfterValidator(_require_host)]
    elif kind is datetime:
        kind = AwareDatetime
    elif kind is int:
        kind = Annotated[int, Field(ge=-_MAX_BIGINT, le=_MAX_BIGINT)]
    elif kind is str:
        kind = Annotated[str, Field(pattern=PLAIN_PATTERN)]
    return kind | None if is_nullable(column) else kind


def _require_host(text: str) -> str:
    if "%" in text:
        raise ValueError("zone ids are not supported")
    return str(ip_address(text))


def build_invalid_place() -> InvalidInput:
    return InvalidInput("Invalid cursor in `after`.", place="after", remedy="Repeat the request without `after`.")


def format_moment_key(at: datetime, row_id: str) -> str:
    return f"{at.isoformat()} {row_id}"


def parse_moment_key(text: str) -> tuple[datetime, str] | None:
    """Parse a key from `format_moment_key`; None if the text is empty. Raises InvalidInput."""
    at, _, row_id = text.partition(" ")
    try:
        moment = datetime.fromisoformat(at) if text else None
    except ValueError as exc:
        raise build_invalid_place() from exc
    if moment is not None and moment.tzinfo is None:
        raise build_invalid_place()
    return None if moment is None else (moment, row_id)
