"""Rows that one statement has picked and the next one takes, by their place in the table (ctid).

What PostgreSQL believes of a table that fills and empties, or of a tenant that is new, is always old: it expects a row
where there are 50,000, and compares each of them with each that was picked. By its place each is found at once.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import text
from sqlalchemy.orm import Session

_WAYS = text(
    """
SELECT set_config(name, :allowed, true)
FROM unnest(ARRAY['enable_seqscan', 'enable_indexscan', 'enable_bitmapscan']) AS ways (name)
"""
)


@contextmanager
def by_place(session: Session) -> Iterator[None]:
    """Statements of the block that name places find rows by nothing else.

    Between the two statements a row may go and another take its place: the second has to say again which ones it is
    for, or to go by what it was given back.
    """
    session.execute(_WAYS, {"allowed": "off"})
    yield
    session.execute(_WAYS, {"allowed": "on"})
