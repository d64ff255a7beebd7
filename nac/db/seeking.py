"""Pages of long lists whose filter has no index. Each page reads a bounded number of rows, so it can be incomplete; the
next page continues after the last row read.
"""

from collections.abc import Callable, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

from sqlalchemy import ColumnElement, and_, func, or_, select
from sqlalchemy.orm import Session, aliased

from nac.db.orders import Key, Span
from nac.db.places import by_order

# Rows read per page if no index matches the filter.
LOOKED_THROUGH = 25_000

Entity = TypeVar("Entity")
# Returns conditions for an entity or its alias.
Conditions = Callable[[Any], Sequence[ColumnElement[bool]]]


class Sought(NamedTuple, Generic[Entity]):
    rows: Sequence[Entity]
    # Key of the last row read; None at the end of the list.
    searched: Key | None


def seek(
    session: Session,
    entity: type[Entity],
    whose: Sequence[ColumnElement[bool]],
    told_apart: Conditions,
    span: Span,
    *,
    in_full: bool = False,
) -> Sought[Entity]:
    """Return the first rows that match `whose` (indexed in the order of `span`) and `told_apart` (not indexed).
    `in_full` reads any number of rows.

    The subquery has a limit, so PostgreSQL reads no more rows, whatever its estimates.
    """
    found = span.order.sorted(select(entity).where(*whose)).execution_options(populate_existing=True)
    if span.after is not None:
        found = found.where(span.order.behind(span.after))
    with by_order(session):
        if in_full or not told_apart(entity):
            return Sought(session.scalars(found.where(*told_apart(entity)).limit(span.limit)).all(), None)
        # One statement, because rows could change between two. It returns the matching rows and the last row read,
        # which marks the position.
        number = func.row_number().over(order_by=span.order.by())
        looked = found.add_columns(number.label("looked_through")).limit(LOOKED_THROUGH).subquery()
        each = aliased(entity, looked)
        fits, is_last = and_(*told_apart(each)), looked.c.looked_through == LOOKED_THROUGH
        fitting = span.order.sorted(select(each, fits, is_last), each).where(or_(fits, is_last)).limit(span.limit)
        rows = session.execute(fitting.execution_options(populate_existing=True)).all()
    fit = [row for row, does_fit, _ in rows if does_fit]
    ended_early = len(fit) < span.limit and bool(rows) and rows[-1][2]
    return Sought(fit, span.order.key_of(rows[-1][0]) if ended_early else None)
