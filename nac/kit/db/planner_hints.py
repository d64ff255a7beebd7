"""Helpers for rows selected by one statement and changed by the next, by their location (ctid).

Statistics of tables that fill and empty, or of new tenants, are always outdated. PostgreSQL expects one row instead of
50,000 and compares all pairs. A ctid finds each row directly.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from sqlalchemy.orm import Session

from nac.kit.db.session import set_for_transaction

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
