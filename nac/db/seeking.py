"""Pages of a list of many rows, of which an index has the order and not what is asked for: so many rows are looked
through and no more. Where the page is not full by then, the next one goes on behind the last that was looked at."""

from collections.abc import Callable, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

from sqlalchemy import ColumnElement, select
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
        each = aliased(entity, found.limit(LOOKED_THROUGH).subquery())
        fitting = span.order.sorted(select(each), each).where(*told_apart(each)).limit(span.limit)
        rows = session.scalars(fitting.execution_options(populate_existing=True)).all()
        if len(rows) == span.limit:
            return Sought(rows, None)
        last = found.with_only_columns(*span.order.columns).offset(LOOKED_THROUGH - 1).limit(1)
        row = session.execute(last).one_or_none()
    return Sought(rows, None if row is None else tuple(row))
