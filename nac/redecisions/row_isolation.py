"""Batch processing that isolates failing rows."""

from collections.abc import Callable, Sequence
from typing import TypeVar

from sqlalchemy.exc import InterfaceError, OperationalError
from sqlalchemy.orm import Session

# With more failures, single rows are not the cause.
MAX_FAULTY = 10
R = TypeVar("R")
T = TypeVar("T")


def isolate_failing_rows(
    session: Session, rows: Sequence[R], work: Callable[[Sequence[R]], list[T]], faulty: Callable[[R], T]
) -> list[T]:
    """Run `work` on `rows`. If it fails, halve the batch to isolate failing rows, and use `faulty` for them. Raises
    the error if more than MOST_FAULTY rows fail."""
    failures = 0

    def attempt(some: Sequence[R]) -> list[T]:
        nonlocal failures
        try:
            with session.begin_nested():
                return work(some)
        except (OperationalError, InterfaceError):
            raise
        except Exception:  # house-rule: one failing row must not block all others
            if len(some) > 1:
                middle = len(some) // 2
                return attempt(some[:middle]) + attempt(some[middle:])
            failures += 1
            if failures > MAX_FAULTY:
                raise
            return [faulty(some[0])]

    return attempt(rows) if rows else []
