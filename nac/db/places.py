"""Rows that one statement has picked and the next one takes, by their place in the table (ctid).

What PostgreSQL believes of a table that fills and empties, or of a tenant that is new, is always old: it expects a row
where there are 50,000, and compares each of them with each that was picked. By its place each is found at once.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from sqlalchemy.orm import Session

from nac.db.session import set_for_transaction

_WAYS: Final = ("enable_seqscan", "enable_indexscan", "enable_bitmapscan")


@contextmanager
def by_place(session: Session) -> Iterator[None]:
    """Statements of the block that name places find rows by nothing else.

    Between the two statements a row may go and another take its place: the second has to say again which ones it is
    for, or to go by what it was given back.
    """
    set_for_transaction(session, **dict.fromkeys(_WAYS, "off"))
    yield
    set_for_transaction(session, **dict.fromkeys(_WAYS, "on"))


@contextmanager
def by_order(session: Session) -> Iterator[None]:
    """Statements of the block read an index that has their order; nothing is sorted.

    Row-level security makes the planner expect few rows of what is nearly all: it would read all and sort them.
    """
    set_for_transaction(session, enable_sort="off")
    yield
    set_for_transaction(session, enable_sort="on")
