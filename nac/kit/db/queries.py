"""Helpers for queries.

* `search_bounded`: pages of long lists whose filter has no index. Each page reads a bounded number of rows, so it can
  be incomplete; the next page continues after the last row read.
* `force_ctid_scan`, `force_index_order`, `analyse_if_grown`: plans for tables with outdated statistics. PostgreSQL
  expects one row instead of 50,000, and compares all pairs.
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

# Rows read per page if no index matches the filter.
MAX_SCANNED_ROWS = 25_000

Entity = TypeVar("Entity")
# Returns conditions for an entity or its alias.
Conditions = Callable[[Any], Sequence[ColumnElement[bool]]]


class BoundedPage(NamedTuple, Generic[Entity]):
    rows: Sequence[Entity]
    # Key of the last row read; None at the end of the list.
    searched: SortKey | None


def search_bounded(
    session: Session,
    entity: type[Entity],
    whose: Sequence[ColumnElement[bool]],
    told_apart: Conditions,
    span: PageSpan,
    *,
    in_full: bool = False,
) -> BoundedPage[Entity]:
    """Return the first rows that match `whose` (indexed in the order of `span`) and `told_apart` (not indexed).
    `in_full` reads any number of rows.

    The subquery has a limit, so PostgreSQL reads no more rows, whatever its estimates.
    """
    found = span.order.apply_to(select(entity).where(*whose)).execution_options(populate_existing=True)
    if span.after is not None:
        found = found.where(span.order.behind(span.after))
    with force_index_order(session):
        if in_full or not told_apart(entity):
            return BoundedPage(session.scalars(found.where(*told_apart(entity)).limit(span.limit)).all(), None)
        # One statement, because rows could change between two. It returns the matching rows and the last row read,
        # which marks the position.
        number = func.row_number().over(order_by=span.order.by())
        looked = found.add_columns(number.label("looked_through")).limit(MAX_SCANNED_ROWS).subquery()
        each = aliased(entity, looked)
        fits, is_last = and_(*told_apart(each)), looked.c.looked_through == MAX_SCANNED_ROWS
        fitting = span.order.apply_to(select(each, fits, is_last), each).where(or_(fits, is_last)).limit(span.limit)
        rows = session.execute(fitting.execution_options(populate_existing=True)).all()
    fit = [row for row, does_fit, _ in rows if does_fit]
    ended_early = len(fit) < span.limit and bool(rows) and rows[-1][2]
    return BoundedPage(fit, span.order.row_key(rows[-1][0]) if ended_early else None)


_OTHER_SCANS: Final = ("enable_seqscan", "enable_indexscan", "enable_bitmapscan")


@contextmanager
def force_ctid_scan(session: Session) -> Iterator[None]:
    """Make statements in the block find rows only by ctid.

    A row can be replaced in between, so the second statement must repeat the conditions or check the returned rows.
    """
    set_for_transaction(session, **dict.fromkeys(_OTHER_SCANS, "off"))
    yield
    set_for_transaction(session, **dict.fromkeys(_OTHER_SCANS, "on"))


@contextmanager
def force_index_order(session: Session) -> Iterator[None]:
    """Make statements in the block read an index in its order, without sorting.

    Because of row-level security, the planner expects few rows even of nearly all, and would read and sort them.
    """
    set_for_transaction(session, enable_sort="off")
    yield
    set_for_transaction(session, enable_sort="on")


GrowingTable = Literal["endpoints", "users", "certificates"]
GROWING_TABLES: frozenset[str] = frozenset(get_args(GrowingTable))


def analyse_if_grown(session: Session, table: str) -> None:
    """Analyze a table of GROWING that counts as empty, before inserting rows that refer to it. Repeat it now and then,
    because autovacuum can run at any time.
    """
    session.execute(select(func.note_growth(table)))


_TextColumn = InstrumentedAttribute[str] | InstrumentedAttribute[str | None]


def in_array(column: Any, values: Iterable[Any]) -> ColumnElement[bool]:  # noqa: ANN401 -- a mapped column
    """Like `column.in_(values)`."""
    is_among: ColumnElement[bool] = column == any_(cast(list(values), ARRAY(column.type)))
    return is_among


def contains_text(text: str, *columns: _TextColumn) -> ColumnElement[bool]:
    """Match `text` within one of the columns, ignoring case."""
    return or_(*(column.icontains(text, autoescape=True) for column in columns))
