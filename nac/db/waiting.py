"""How long this process waits for PostgreSQL: each statement has a deadline on our side.

A frozen server, or one behind a dead network, answers nothing and closes nothing. Its kernel acknowledges what is sent,
so that keepalives and tcp_user_timeout notice nothing, and unix sockets do not have them.
"""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from time import monotonic
from traceback import clear_frames
from typing import Any, Final, TypeVar

import psycopg
from psycopg.abc import PQGen
from psycopg.errors import ConnectionTimeout, _WaitTimeout
from sqlalchemy.pool import ConnectionPoolEntry, QueuePool
from sqlalchemy.util.queue import Queue

STATEMENT_SECONDS: Final = 120.0
CONNECT_SECONDS: Final = 5.0
# A server that is well answers within it. The driver waits as long for a new connection at least.
_LEAST_SECONDS: Final = 2.0
_INTERVAL_SECONDS: Final = 0.1
_Value = TypeVar("_Value")


class ServerSilent(psycopg.OperationalError):
    """PostgreSQL has not answered in time. The connection is closed: what it was asked for may be done all the same."""


class WaitBudget:
    """Seconds that a request may still wait until it hears from PostgreSQL: for a thread, a connection, an answer.

    Each answer restores all of it, so that a request of many statements is not cut short. After a silence nothing is
    left, so that it does not wait again for each further attempt.
    """

    __slots__ = ("_full", "left")

    def __init__(self, seconds: float) -> None:
        self._full = self.left = seconds

    @property
    def spare(self) -> float:
        """What may be spent before PostgreSQL is asked."""
        return max(0.0, self.left - _LEAST_SECONDS)

    def spend(self, seconds: float) -> None:
        """Of waiting for something else than PostgreSQL's answer, for which some time always stays."""
        if self.left:
            self.left = max(_LEAST_SECONDS, self.left - seconds)

    def restore(self) -> None:
        self.left = self._full

    def exhaust(self) -> None:
        self.left = 0.0


_budget: ContextVar[WaitBudget | None] = ContextVar("wait_budget", default=None)


@contextmanager
def wait_budget(seconds: float, *, spent: float = 0) -> Iterator[None]:
    """Bound all waiting for PostgreSQL in this block, in place of what the engines say; `spent` is over already."""
    budget = WaitBudget(seconds)
    budget.spend(spent)
    token = _budget.set(budget)
    try:
        yield
    finally:
        _budget.reset(token)


class BoundedConnection(psycopg.Connection[Any]):
    """Gives the server up once it was silent for `statement_seconds`, or for what is left of the budget."""

    statement_seconds = STATEMENT_SECONDS

    def wait(self, gen: PQGen[_Value], interval: float = _INTERVAL_SECONDS, timeout: float | None = None) -> _Value:
        """Raises ServerSilent. With a `timeout` the caller waits for what may never come, such as a notification."""
        if timeout is not None:
            return super().wait(gen, interval, timeout)
        budget = _budget.get()
        seconds = self.statement_seconds if budget is None else budget.left
        if not seconds:
            self.pgconn.finish()
            raise _silent()
        try:
            value = super().wait(gen, interval, seconds)
        except _WaitTimeout:
            self.pgconn.finish()
            if budget is not None:
                budget.exhaust()
            raise _silent(seconds) from None
        if budget is not None:
            budget.restore()
        return value


def connect(*arguments: Any, statement_seconds: float = STATEMENT_SECONDS, **parameters: Any) -> BoundedConnection:  # noqa: ANN401
    """As `psycopg.connect`, whose arguments it takes. Raises ServerSilent or another OperationalError."""
    budget = _budget.get()
    seconds = CONNECT_SECONDS if budget is None else min(CONNECT_SECONDS, budget.left)
    if not seconds:
        raise _silent()
    try:
        connection = BoundedConnection.connect(*arguments, **parameters, connect_timeout=math.ceil(seconds))
    except ConnectionTimeout as exc:
        if budget is not None:
            budget.exhaust()
        # They hold the socket: PostgreSQL would keep a session for it until it is collected as garbage.
        clear_frames(exc.__traceback__)
        raise _silent(seconds) from None
    connection.statement_seconds = statement_seconds
    if budget is not None:
        budget.restore()
    return connection


def _silent(seconds: float | None = None) -> ServerSilent:
    return ServerSilent(
        "PostgreSQL does not answer." if seconds is None else f"PostgreSQL was silent for {seconds:.3g} s."
    )


class _Idle(Queue[ConnectionPoolEntry]):
    def get(self, block: bool = True, timeout: float | None = None) -> ConnectionPoolEntry:
        budget = _budget.get()
        if not block or budget is None:
            return super().get(block, timeout)
        began = monotonic()
        try:
            return super().get(block, budget.spare if timeout is None else min(timeout, budget.spare))
        finally:
            budget.spend(monotonic() - began)


class BoundedPool(QueuePool):
    """Waits for a connection no longer than the budget allows."""

    _queue_class = _Idle
