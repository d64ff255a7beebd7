"""Sort orders and pages of lists. A page begins after the key of the last row of the previous page, even if that row
was deleted meanwhile.

A sort order has one column, or two: rows with equal values in the first column are sorted by the second column, which
is unique. Both columns ascend, or both descend, as in an index. NULL values are always last.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final, TypeVar

from sqlalchemy import ColumnElement, Select, and_, literal, or_, tuple_
from sqlalchemy.orm import InstrumentedAttribute

SortKey = tuple[Any, ...]
SortColumn = InstrumentedAttribute[Any]
Query = TypeVar("Query", bound=Select[*tuple[Any, ...]])
Row = TypeVar("Row")

DESCENDING_PREFIX: Final = "-"
_DEFAULT_LIMIT: Final = 1_000


class PlainRow:
    """Base class of rows in long lists. The attributes are values of columns. Plain rows are created much faster than
    model objects."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class SortOrder:
    # Name of the order in requests. The name begins with `-` if the order descends.
    name: str
    # The last column is unique. Only the first column can be NULL.
    columns: tuple[SortColumn, ...]

    @property
    def goes_down(self) -> bool:
        return self.name.startswith(DESCENDING_PREFIX)

    def row_key(self, row: Any) -> SortKey:  # noqa: ANN401 -- an entity, or several in a sequence
        """Return the key of this row. The next page begins after this key."""
        entities = row if isinstance(row, Sequence) else (row,)
        return tuple(
            next(getattr(each, column.key) for each in entities if isinstance(each, (column.parent.class_, PlainRow)))
            for column in self.columns
        )

    def apply_to(self, query: Query, entity: Any = None) -> Query:  # noqa: ANN401 -- an alias, as SQLAlchemy makes them
        """Sort a query by the columns of this order. If `entity` is set, uses the columns of this alias instead."""
        return query.order_by(*self.by(entity))

    def by(self, entity: Any = None) -> list[ColumnElement[Any]]:  # noqa: ANN401 -- as above
        columns = self.columns if entity is None else [getattr(entity, column.key) for column in self.columns]
        return [self._directed(column) for column in columns]

    def behind(self, key: SortKey) -> ColumnElement[bool]:
        first, *others = self.columns
        if not is_nullable(first):
            return self._is_past(self.columns, key)
        if key[0] is None:
            return and_(first.is_(None), self._is_past(others, key[1:]))
        return or_(self._is_past(self.columns, key), first.is_(None))

    def _directed(self, column: SortColumn) -> ColumnElement[Any]:
        directed = column.desc() if self.goes_down else column.asc()
        return directed.nulls_last() if self.goes_down and is_nullable(column) else directed

    def _is_past(self, columns: Sequence[SortColumn], key: SortKey) -> ColumnElement[bool]:
        values = [literal(value, column.type) for column, value in zip(columns, key, strict=True)]
        if len(values) == 1:
            return columns[0] < values[0] if self.goes_down else columns[0] > values[0]
        ours, theirs = tuple_(*columns), tuple_(*values)
        return ours < theirs if self.goes_down else ours > theirs


@dataclass(frozen=True, slots=True)
class PageSpan:
    """Part of a list: the order, the start and the maximum number of rows."""

    order: SortOrder
    limit: int = _DEFAULT_LIMIT
    # Key of the row before the first row; None for the start of the list.
    after: SortKey | None = None

    def of(self, query: Query) -> Query:
        query = self.order.apply_to(query).limit(self.limit)
        return query if self.after is None else query.where(self.order.behind(self.after))

    def cut(self, rows: Iterable[Row]) -> list[Row]:
        """Return the rows of this page from a complete short list. Columns must not be NULL."""
        key, down = self.order.row_key, self.order.goes_down
        found = sorted(rows, key=key, reverse=down)
        if self.after is not None:
            found = [row for row in found if (key(row) < self.after if down else key(row) > self.after)]
        return found[: self.limit]


class SortOrders:
    """Ascending and descending sort orders of a list.

    `names` maps the name of each order to its columns. `default` names the default order; "" means the first name.
    """

    def __init__(self, names: Mapping[str, tuple[SortColumn, ...]], *, default: str = "") -> None:
        both = chain.from_iterable((name, DESCENDING_PREFIX + name) for name in names)
        self._orders = {each: SortOrder(each, names[each.removeprefix(DESCENDING_PREFIX)]) for each in both}
        self.default = default or next(iter(names))

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._orders)

    def __getitem__(self, name: str) -> SortOrder:
        return self._orders[name]

    def first(self, limit: int = _DEFAULT_LIMIT) -> PageSpan:
        """Return the first page in the default order."""
        return PageSpan(self._orders[self.default], limit)

    def behind(self, *key: object, limit: int = _DEFAULT_LIMIT) -> PageSpan:
        """Return a page after the row with this key, in the default order."""
        return PageSpan(self._orders[self.default], limit, key)

    def pages(
        self,
        fetch: Callable[[PageSpan], Sequence[Row]],
        entity: Callable[[Row], Any] = lambda row: row,
        *,
        size: int = _DEFAULT_LIMIT,
        after: SortKey | None = None,
    ) -> Iterator[Sequence[Row]]:
        """Yield all pages in the default order. `entity` returns the entity with the sort columns of a fetched row."""
        span = PageSpan(self._orders[self.default], size, after)
        while page := fetch(span):
            yield page
            span = self.behind(*span.order.row_key(entity(page[-1])), limit=size)


def is_nullable(column: SortColumn) -> bool:
    return bool(column.property.columns[0].nullable)
