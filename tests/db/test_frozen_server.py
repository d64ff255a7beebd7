"""PostgreSQL freezes. Every wait ends, and the engine works again when PostgreSQL continues."""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager

import psycopg
import pytest
from sqlalchemy import Engine, text

from nac.kit.db import (
    CredentialScope,
    connect,
    driver_connection,
    limit_waiting,
    make_engine,
    session_scope,
    set_for_transaction,
)
from nac.kit.db.timeouts import CONNECT_SECONDS, ServerSilent
from nac.kit.errors import DatabaseSilent, DatabaseUnavailable
from tests.polling import until
from tests.postgres import Cluster, Database

_NAME = "admit-frozen"
_STATEMENT_SECONDS = 1.0
# The margin for a busy machine.
_MARGIN_SECONDS = 3.0


@pytest.fixture
def engine(database: Database) -> Iterator[Engine]:
    engine = make_engine(database.app_url, pool_size=2, application_name=_NAME, statement_seconds=_STATEMENT_SECONDS)
    yield engine
    engine.dispose()


@contextmanager
def fails_within(seconds: float) -> Iterator[None]:
    began = time.monotonic()
    with pytest.raises(DatabaseUnavailable) as caught:
        yield
    assert time.monotonic() - began < seconds + _MARGIN_SECONDS
    assert caught.value.retry_after_seconds


def run_query(engine: Engine) -> int:
    with session_scope(CredentialScope(""), engine=engine) as session:
        return session.scalar(text("SELECT 1"))


def copy_out(engine: Engine) -> int:
    with (
        session_scope(CredentialScope(""), engine=engine) as session,
        driver_connection(session).cursor().copy("COPY (SELECT 1) TO STDOUT") as copy,
    ):
        return len(list(copy))


@pytest.mark.parametrize("work", [run_query, copy_out])
def test_frozen_server_fails_statement_and_recovers(
    engine: Engine, cluster: Cluster, work: Callable[[Engine], int]
) -> None:
    assert work(engine) == 1
    # Neither the old connection nor a new connection gets a response.
    with cluster.frozen(), fails_within(_STATEMENT_SECONDS + CONNECT_SECONDS):
        work(engine)
    assert work(engine) == 1


@pytest.mark.parametrize("end", ["statement", "commit", "rollback", "setting"])
def test_freeze_in_a_transaction_fails_the_statement(engine: Engine, cluster: Cluster, end: str) -> None:
    def work(freezing: ExitStack) -> None:
        with session_scope(CredentialScope(""), engine=engine) as session:
            if end != "setting":
                session.execute(text("SELECT 1"))
            freezing.enter_context(cluster.frozen())
            if end == "statement":
                session.execute(text("SELECT 2"))
            if end == "rollback":
                session.rollback()
            if end == "setting":
                set_for_transaction(session, enable_sort="off")

    with ExitStack() as freezing, fails_within(_STATEMENT_SECONDS):
        work(freezing)
    assert run_query(engine) == 1


def test_pool_recovers_from_a_freeze_during_connect(engine: Engine, cluster: Cluster) -> None:
    with cluster.frozen(), ThreadPoolExecutor(8) as threads:

        def fail(_: int) -> float:
            with limit_waiting(3), fails_within(3 + 2 + 2):
                run_query(engine)
            return True

        assert all(threads.map(fail, range(8)))
    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(lambda _: run_query(engine), range(8))) == [1] * 8


def test_connections_not_opened_in_time_are_closed(engine: Engine, cluster: Cluster, database: Database) -> None:
    caught = []
    with cluster.frozen():
        for _ in range(3):
            with limit_waiting(2), pytest.raises(DatabaseSilent) as failed:
                run_query(engine)
            # A stored error, for example in a log, must not keep a connection open.
            caught.append(failed.value)
    with psycopg.connect(database.superuser_url, autocommit=True) as other:
        count = "SELECT count(*) FROM pg_stat_activity WHERE application_name = %s"
        until(lambda: other.execute(count, [_NAME]).fetchone() == (0,), "no session is left", seconds=5)


def test_silent_statement_leaves_other_connections_open(engine: Engine, database: Database) -> None:
    def backend() -> int:
        with session_scope(CredentialScope(""), engine=engine) as session:
            return session.scalar(text("SELECT pg_backend_pid()"))

    with session_scope(CredentialScope(""), engine=engine) as session:
        session.execute(text("SELECT 1"))
        kept = backend()
        with fails_within(_STATEMENT_SECONDS), session_scope(CredentialScope(""), engine=engine) as other:
            other.execute(text("SELECT pg_sleep(60) WHERE pg_backend_pid() = :kept"), {"kept": kept})
    assert backend() != kept


@pytest.mark.parametrize(
    ("budget", "statements"), [(1.5, [0.5] * 4), (30, [1.5])], ids=["restored by each response", "overrides engine"]
)
def test_budget_of_waiting_limits_each_statement(engine: Engine, budget: float, statements: list[float]) -> None:
    with limit_waiting(budget):
        for seconds in statements:
            with session_scope(CredentialScope(""), engine=engine) as session:
                session.execute(text("SELECT pg_sleep(:seconds)"), {"seconds": seconds})


def test_silent_server_is_not_awaited_twice(engine: Engine, cluster: Cluster) -> None:
    run_query(engine)
    with cluster.frozen(), limit_waiting(1):
        with fails_within(1):
            run_query(engine)
        began = time.monotonic()
        with pytest.raises(DatabaseSilent):
            run_query(engine)
        assert time.monotonic() - began < 0.5


def test_listener_waits_for_notifications_beyond_deadline(database: Database, cluster: Cluster) -> None:
    with connect(database.app_url, autocommit=True, statement_seconds=0.2) as listener:
        listener.execute("LISTEN changes")
        assert list(listener.notifies(timeout=0.5)) == []
        assert listener.execute("SELECT 1").fetchall() == [(1,)]
        with cluster.frozen(), pytest.raises(ServerSilent):
            listener.execute("SELECT 1")
