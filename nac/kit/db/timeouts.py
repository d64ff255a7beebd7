"""Time limits for PostgreSQL. The client closes a connection if the server does not answer a statement in time.

A frozen server, or a server behind a broken network, sends nothing and does not close connections. TCP keepalives and
tcp_user_timeout do not detect a frozen server, because its kernel still acknowledges packets. They also do not work on
Unix sockets.
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
# Time within which a healthy server answers. The driver also allows no shorter timeout for a connection attempt.
_MIN_SECONDS: Final = 2.0
_INTERVAL_SECONDS: Final = 0.1
_Value = TypeVar("_Value")


class ServerSilent(psycopg.OperationalError):
    """PostgreSQL did not answer in time. The connection is closed, but the statement may still complete."""


class WaitBudget:
    """Seconds that a request can still wait for a thread, for a connection, and for an answer of PostgreSQL.

    Each answer restores the whole budget, so that a request with many statements can finish. A timeout uses up the
    whole budget, so that further attempts fail immediately.
    """

    __slots__ = ("_full", "left")

    def __init__(self, seconds: float) -> None:
        self._full = self.left = seconds

    @property
    def spare(self) -> float:
        """Seconds for which the request can still wait for a thread or connection. Some time stays reserved for the
        answer of PostgreSQL."""
        return max(0.0, self.left - _MIN_SECONDS)

    def spend(self, seconds: float) -> None:
        """Subtract the seconds for which the request waited for a thread or connection.

        Some time stays reserved for the answer of PostgreSQL.
        """
        if self.left:
            self.left = max(_MIN_SECONDS, self.left - seconds)

    def restore(self) -> None:
        self.left = self._full

    def exhaust(self) -> None:
        self.left = 0.0


_budget: ContextVar[WaitBudget | None] = ContextVar("wait_budget", default=None)


@contextmanager
def limit_waiting(seconds: float, *, spent: float = 0) -> Iterator[None]:
    """Limit the wait for PostgreSQL in this block. The limit replaces the engine's `statement_seconds`.

    `spent` are seconds of the limit that the request has already waited.
    """
    budget = WaitBudget(seconds)
    budget.spend(spent)
    token = _budget.set(budget)
    try:
        yield
    finally:
        _budget.reset(token)


class BoundedConnection(psycopg.Connection[Any]):
    """Connection that fails after `statement_seconds` without an answer, or when the WaitBudget is used up."""

    statement_seconds = STATEMENT_SECONDS

    def wait(self, gen: PQGen[_Value], interval: float = _INTERVAL_SECONDS, timeout: float | None = None) -> _Value:
        """Wait for an answer of the server. Raises ServerSilent if the time is over.

        Set `timeout` only to wait for events that may never occur, such as notifications. No other limit then applies.
        """
        if timeout is not None:
            return super().wait(gen, interval, timeout)
        budget = _budget.get()
        seconds = self.statement_seconds if budget is None else budget.left
        if not seconds:
            self.pgconn.finish()
            raise _silent_error()
        try:
            value = super().wait(gen, interval, seconds)
        except _WaitTimeout:
            self.pgconn.finish()
            if budget is not None:
                budget.exhaust()
            raise _silent_error(seconds) from None
        if budget is not None:
            budget.restore()
        return value


def connect(*arguments: Any, statement_seconds: float = STATEMENT_SECONDS, **parameters: Any) -> BoundedConnection:  # noqa: ANN401
    """Connect like `psycopg.connect`. Raises ServerSilent or another OperationalError."""
    budget = _budget.get()
    seconds = CONNECT_SECONDS if budget is None else min(CONNECT_SECONDS, budget.left)
    if not seconds:
        raise _silent_error()
    try:
        connection = BoundedConnection.connect(*arguments, **parameters, connect_timeout=math.ceil(seconds))
    except ConnectionTimeout as exc:
        if budget is not None:
            budget.exhaust()
        # Release the socket, to which the stack frames refer. Otherwise the connection to PostgreSQL stays open until
        # garbage collection.
        clear_frames(exc.__traceback__)
        raise _silent_error(seconds) from None
    connection.statement_seconds = statement_seconds
    if budget is not None:
        budget.restore()
    return connection


def _silent_error(seconds: float | None = None) -> ServerSilent:
    return ServerSilent(
        "PostgreSQL does not respond." if seconds is None else f"PostgreSQL did not respond within {seconds:.3g} s."
    )


class _IdleQueue(Queue[ConnectionPoolEntry]):
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
    """Connection pool. A caller waits for a connection at most as long as the budget allows."""

    _queue_class = _IdleQueue
