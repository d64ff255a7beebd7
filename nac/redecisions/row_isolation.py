"""Work on many rows that one of them may spoil."""

from collections.abc import Callable, Sequence
from typing import TypeVar

from sqlalchemy.exc import InterfaceError, OperationalError
from sqlalchemy.orm import Session

# More than that is no fault of single rows.
MAX_FAULTY = 10
R = TypeVar("R")
T = TypeVar("T")


def isolate_failing_rows(
    session: Session, rows: Sequence[R], work: Callable[[Sequence[R]], list[T]], faulty: Callable[[R], T]
) -> list[T]:
    """What `work` makes of `rows`; where it fails, it is done in halves, down to the rows that make it fail: for them
    there is what `faulty` says. Raises what it failed with where these are more than MOST_FAULTY."""
    found = 0

    def attempt(some: Sequence[R]) -> list[T]:
        nonlocal found
        try:
            with session.begin_nested():
                return work(some)
        except (OperationalError, InterfaceError):
            raise
        except Exception:  # house-rule: one row that nobody thought of does not hold up all others
            if len(some) > 1:
                middle = len(some) // 2
                return attempt(some[:middle]) + attempt(some[middle:])
            found += 1
            if found > MAX_FAULTY:
                raise
            return [faulty(some[0])]

    return attempt(rows) if rows else []
