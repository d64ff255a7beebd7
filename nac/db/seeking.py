"""Pages of a list of many rows, of which an index has the order and not what is asked for: so many rows are looked
through and no more. Where the page is not full by then, the next one goes on behind the last that was looked at."""

from collections.abc import Callable, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

from sqlalchemy import ColumnElement, and_, func, or_, select
from sqlalchemy.orm import Session, aliased

from nac.db.orders import Key, Span
from nac.db.places import by_order

# Of rows that no index tells apart, a page looks through so many.
LOOKED_THROUGH = 25_000

Entity = TypeVar("Entity")
# Conditions on an entity, or on what stands for it.
Conditions = Callable[[Any], Sequence[ColumnElement[bool]]]


class Sought(NamedTuple, Generic[Entity]):
    rows: Sequence[Entity]
    # As far as which rows were looked through; None where that is the end of the list.
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
    """Of those that fit `whose`, which an index in the order of `span` has, the first that fit `told_apart` as well,
    which no index has; `in_full` however many rows that takes.

    The rows that are looked through are a sub-select with a limit: whatever PostgreSQL expects of them, it reads no
    others.
    """
    found = span.order.sorted(select(entity).where(*whose)).execution_options(populate_existing=True)
    if span.after is not None:
        found = found.where(span.order.behind(span.after))
    with by_order(session):
        if in_full or not told_apart(entity):
            return Sought(session.scalars(found.where(*told_apart(entity)).limit(span.limit)).all(), None)
        # One statement, and so of one moment: rows that come and go between two would be passed over or come twice.
        # With those that fit comes the last that is looked through, whether or not it fits: as far as that it went.
        number = func.row_number().over(order_by=span.order.by())
        looked = found.add_columns(number.label("looked_through")).limit(LOOKED_THROUGH).subquery()
        each = aliased(entity, looked)
        fits, is_last = and_(*told_apart(each)), looked.c.looked_through == LOOKED_THROUGH
        fitting = span.order.sorted(select(each, fits, is_last), each).where(or_(fits, is_last)).limit(span.limit)
        rows = session.execute(fitting.execution_options(populate_existing=True)).all()
    fit = [row for row, does_fit, _ in rows if does_fit]
    ended_early = len(fit) < span.limit and bool(rows) and rows[-1][2]
    return Sought(fit, span.order.key_of(rows[-1][0]) if ended_early else None)
