"""Pages of long lists whose filter has no index. Each page reads a bounded number of rows, so it can be incomplete; the
next page continues after the last row read.
"""

from collections.abc import Callable, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

from sqlalchemy import ColumnElement, and_, func, or_, select
from sqlalchemy.orm import Session, aliased

from nac.kit.db.planner_hints import force_index_order
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
