"""Refreshes statistics of growing tables: PostgreSQL's plans for foreign keys depend on their estimated size."""

from typing import Literal, get_args

from sqlalchemy import func, select
from sqlalchemy.orm import Session

GrowingTable = Literal["endpoints", "users", "certificates"]
GROWING_TABLES: frozenset[str] = frozenset(get_args(GrowingTable))


def analyse_if_grown(session: Session, table: str) -> None:
    """Analyze a table of GROWING that counts as empty, before inserting rows that refer to it. Repeat it now and then,
    because autovacuum can run at any time.
    """
    session.execute(select(func.note_growth(table)))
