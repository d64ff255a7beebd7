"""PostgreSQL ends connections, and nobody's request is lost by it."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import psycopg
import pytest
from sqlalchemy import Engine, event, text
from sqlalchemy.engine import Connection

from nac.db import CredentialScope, make_engine, session_scope
from nac.db import engine as engines
from nac.errors import DatabaseUnavailable
from tests.postgres import Database

_NAME = "admit-cut"


@pytest.fixture
def engine(database: Database) -> Iterator[Engine]:
    engine = make_engine(database.app_url, pool_size=4, application_name=_NAME)
    yield engine
    engine.dispose()


@pytest.fixture
def cut(database: Database) -> Iterator[Callable[[], int]]:
    """Ends all connections of the engine; how many there were. They are gone when it returns."""
    with psycopg.connect(database.superuser_url, autocommit=True) as connection:

        def end() -> int:
            ended = connection.execute(
                "SELECT count(pg_terminate_backend(pid, 5000)) FROM pg_stat_activity WHERE application_name = %s",
                [_NAME],
            )
            row = ended.fetchone()
            return row[0] if row else 0

        yield end


def ask(engine: Engine) -> int:
    with session_scope(CredentialScope(""), engine=engine) as session:
        return session.scalar(text("SELECT 1"))


def test_connections_that_were_cut_a_moment_ago_cost_no_request(engine: Engine, cut: Callable[[], int]) -> None:
    barrier = Barrier(4)

    def at_once(_: int) -> int:
        with session_scope(CredentialScope(""), engine=engine):
            barrier.wait(20)
        return 1

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(at_once, range(4)))
        assert cut() == 4
        assert list(pool.map(lambda _: ask(engine), range(8))) == [1] * 8


@pytest.mark.parametrize(("keeps_all", "left"), [(True, 4), (False, 2)])
def test_connections_that_many_needed_at_once_are_kept_where_that_is_wanted(
    database: Database, keeps_all: bool, left: int
) -> None:
    engine = make_engine(database.app_url, pool_size=2, application_name=_NAME, keeps_all=keeps_all)
    barrier = Barrier(4)

    def at_once(_: int) -> None:
        with session_scope(CredentialScope(""), engine=engine):
            barrier.wait(20)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(at_once, range(4)))
    assert engine.pool.checkedin() == left
    engine.dispose()


def test_cut_that_the_pool_has_not_seen_is_made_good_before_anything_was_done(
    engine: Engine, cut: Callable[[], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engines, "_has_pending_data", lambda connection: False)
    monkeypatch.setattr(engines, "_FRESH_SECONDS", 3_600)
    assert ask(engine) == 1
    assert cut() == 1
    assert ask(engine) == 1


def test_cut_in_the_middle_is_told_and_nothing_is_done_twice(engine: Engine, cut: Callable[[], int]) -> None:
    sent = []

    def note(connection: Connection, cursor, statement, *_: object) -> None:
        sent.append(statement)

    event.listen(engine, "before_cursor_execute", note)

    def work() -> None:
        with session_scope(CredentialScope(""), engine=engine) as session:
            session.scalar(text("SELECT 1"))
            cut()
            session.scalar(text("SELECT 2"))

    with pytest.raises(DatabaseUnavailable):
        work()
    assert [each for each in sent if each.startswith("SELECT 2")] == ["SELECT 2"]
    assert ask(engine) == 1


def test_server_that_is_away_is_told(database: Database) -> None:
    gone = make_engine(database.app_url.replace("host=", "host=/nonexistent"))
    with pytest.raises(DatabaseUnavailable):
        ask(gone)


def test_connection_that_is_gone_when_something_else_goes_wrong_is_told_as_such(
    engine: Engine, cut: Callable[[], int]
) -> None:
    """Its rollback fails: that is the database's failure, and no error of the driver's that nobody knows."""

    def go_wrong() -> None:
        with session_scope(CredentialScope(""), engine=engine) as session:
            session.scalar(text("SELECT 1"))
            assert cut() == 1
            raise DatabaseUnavailable("of another transaction, which was opened in this one")

    with pytest.raises(DatabaseUnavailable):
        go_wrong()
