"""Helpers for queries.

* `search_bounded`: pages of long lists whose filter has no index. The query for a page reads a bounded number of rows,
  so the page can have fewer rows than its limit. The next page continues after the last row that the query read.
* `force_ctid_scan`, `force_index_order`, `analyse_if_grown`: better query plans for tables with outdated statistics.
  Without these functions, PostgreSQL may expect one row instead of 50,000, and therefore compare all pairs of rows.
* `in_array`, `contains_text`: conditions on columns.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, Generic, Literal, NamedTuple, TypeVar, get_args

from sqlalchemy import ColumnElement, and_, any_, cast, func, or_, select
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.orm import InstrumentedAttribute, Session, aliased

from nac.kit.db.session import set_for_transaction
from nac.kit.db.sort_orders import PageSpan, SortKey

# Maximum number of rows that PostgreSQL reads for a page if no index matches the filter.
MAX_SCANNED_ROWS = 25_000

Entity = TypeVar("Entity")
# Function that returns conditions on a model class or on an alias of this class.
Conditions = Callable[[Any], Sequence[ColumnElement[bool]]]


class BoundedPage(NamedTuple, Generic[Entity]):
    rows: Sequence[Entity]
    # If the page has fewer rows than its limit, although the list may have further rows: the key of the last row that
    # PostgreSQL read. Otherwise None.
    searched: SortKey | None


def search_bounded(
    session: Session,
    entity: type[Entity],
    indexed: Sequence[ColumnElement[bool]],
    unindexed: Conditions,
    span: PageSpan,
    *,
    in_full: bool = False,
) -> BoundedPage[Entity]:
    """Return the page `span` of the rows that match the conditions `indexed` and `unindexed`.

    An index must exist for the conditions in `indexed`, in the sort order of `span`. The conditions in `unindexed` have
    no index. PostgreSQL reads at most MAX_SCANNED_ROWS rows; with `in_full`, any number of rows.
    """
    found = span.order.apply_to(select(entity).where(*indexed)).execution_options(populate_existing=True)
    if span.after is not None:
        found = found.where(span.order.behind(span.after))
    with force_index_order(session):
        if in_full or not unindexed(entity):
            return BoundedPage(session.scalars(found.where(*unindexed(entity)).limit(span.limit)).all(), None)
        # The limit of the subquery bounds the number of rows that PostgreSQL reads, even if its estimates are wrong.
        # The statement returns the matching rows, and the last row that PostgreSQL read. The next page starts after
        # this row. Use one statement, because rows could change between two statements.
        number = func.row_number().over(order_by=span.order.by())
        looked = found.add_columns(number.label("looked_through")).limit(MAX_SCANNED_ROWS).subquery()
        each = aliased(entity, looked)
        fits, is_last = and_(*unindexed(each)), looked.c.looked_through == MAX_SCANNED_ROWS
        fitting = span.order.apply_to(select(each, fits, is_last), each).where(or_(fits, is_last)).limit(span.limit)
        rows = session.execute(fitting.execution_options(populate_existing=True)).all()
    fit = [row for row, does_fit, _ in rows if does_fit]
    ended_early = len(fit) < span.limit and bool(rows) and rows[-1][2]
    return BoundedPage(fit, span.order.row_key(rows[-1][0]) if ended_early else None)


_OTHER_SCANS: Final = ("enable_seqscan", "enable_indexscan", "enable_bitmapscan")


@contextmanager
def force_ctid_scan(session: Session) -> Iterator[None]:
    """Make statements in the block find rows only by ctid, the physical position of a row.

    Another transaction can store a different row at a ctid meanwhile. Therefore repeat the original conditions in the
    statement, or check the returned rows.
    """
    set_for_transaction(session, **dict.fromkeys(_OTHER_SCANS, "off"))
    yield
    set_for_transaction(session, **dict.fromkeys(_OTHER_SCANS, "on"))


@contextmanager
def force_index_order(session: Session) -> Iterator[None]:
    """Make statements in the block read an index in its order, without a sort.

    With row-level security, PostgreSQL expects few rows, even if nearly all rows match. Without this function,
    PostgreSQL would read and sort all matching rows.
    """
    set_for_transaction(session, enable_sort="off")
    yield
    set_for_transaction(session, enable_sort="on")


GrowingTable = Literal["endpoints", "users", "certificates"]
GROWING_TABLES: frozenset[str] = frozenset(get_args(GrowingTable))


def analyse_if_grown(session: Session, table: str) -> None:
    """Update the statistics of a table in GROWING_TABLES if the table has rows, but its statistics show an empty table.

    Call this function before you insert many rows into other tables that refer to this table. During a long insertion,
    call it repeatedly, because autovacuum can change the statistics meanwhile.
    """
    session.execute(select(func.note_growth(table)))


_TextColumn = InstrumentedAttribute[str] | InstrumentedAttribute[str | None]


def in_array(column: Any, values: Iterable[Any]) -> ColumnElement[bool]:  # noqa: ANN401 -- a mapped column
    """Return a condition like `column.in_(values)`, but with one array parameter instead of a parameter per value."""
    is_among: ColumnElement[bool] = column == any_(cast(list(values), ARRAY(column.type)))
    return is_among


def contains_text(text: str, *columns: _TextColumn) -> ColumnElement[bool]:
    """Return the condition that at least one of the columns contains `text`. Ignores case."""
    return or_(*(column.icontains(text, autoescape=True) for column in columns))
