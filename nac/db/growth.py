"""Tables that one transaction fills: by what PostgreSQL believes of their size it checks references to them."""

from typing import Literal, get_args

from sqlalchemy import func, select
from sqlalchemy.orm import Session

Growing = Literal["endpoints", "users", "certificates"]
GROWING: frozenset[str] = frozenset(get_args(Growing))


def note_growth(session: Session, table: str) -> None:
    """Of one of GROWING, before rows that refer to it: it is looked at anew where it is held to be empty. To be called
    now and then, since autovacuum may come by at any time."""
    session.execute(select(func.note_growth(table)))
