"""PostgreSQL closes connections, and no request fails."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import psycopg
import pytest
from sqlalchemy import Engine, text

from nac.kit.db import CredentialScope, make_engine, session_scope
from nac.kit.db import engine as engines
from nac.kit.errors import DatabaseUnavailable
from tests.postgres import Database
from tests.statements import counted

_NAME = "admit-cut"


@pytest.fixture
def engine(database: Database) -> Iterator[Engine]:
    engine = make_engine(database.app_url, pool_size=4, application_name=_NAME)
    yield engine
    engine.dispose()


@pytest.fixture
def cut(database: Database) -> Iterator[Callable[[], int]]:
    """Close all connections of the engine and return their number, after PostgreSQL has ended them."""
    with psycopg.connect(database.superuser_url, autocommit=True) as connection:

        def end() -> int:
            ended = connection.execute(
                "SELECT count(pg_terminate_backend(pid, 5000)) FROM pg_stat_activity WHERE application_name = %s",
                [_NAME],
            )
            row = ended.fetchone()
            return row[0] if row else 0

        yield end


def run_query(engine: Engine) -> int:
    with session_scope(CredentialScope(""), engine=engine) as session:
        return session.scalar(text("SELECT 1"))


def open_four(engine: Engine) -> None:
    """Use four connections at once."""
    barrier = Barrier(4)

    def use(_: int) -> None:
        with session_scope(CredentialScope(""), engine=engine):
            barrier.wait(20)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(use, range(4)))


def test_recently_cut_connections_fail_no_request(engine: Engine, cut: Callable[[], int]) -> None:
    open_four(engine)
    assert cut() == 4
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(lambda _: run_query(engine), range(8))) == [1] * 8


@pytest.mark.parametrize(("keeps_all", "left"), [(True, 4), (False, 2)])
def test_surplus_connections_are_kept_if_configured(database: Database, keeps_all: bool, left: int) -> None:
    engine = make_engine(database.app_url, pool_size=2, application_name=_NAME, keeps_all=keeps_all)
    open_four(engine)
    assert engine.pool.checkedin() == left
    engine.dispose()


def test_unnoticed_cut_is_retried_before_any_statement(
    engine: Engine, cut: Callable[[], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engines, "_has_pending_data", lambda connection: False)
    monkeypatch.setattr(engines, "_FRESH_SECONDS", 3_600)
    assert run_query(engine) == 1
    assert cut() == 1
    assert run_query(engine) == 1


def test_cut_in_a_transaction_fails_and_runs_nothing_twice(engine: Engine, cut: Callable[[], int]) -> None:
    def work() -> None:
        with session_scope(CredentialScope(""), engine=engine) as session:
            session.scalar(text("SELECT 1"))
            cut()
            session.scalar(text("SELECT 2"))

    with counted(engine) as sent, pytest.raises(DatabaseUnavailable):
        work()
    assert [each for each in sent if each.startswith("SELECT 2")] == ["SELECT 2"]
    assert run_query(engine) == 1


def test_lost_connection_during_another_error_is_an_outage(engine: Engine, cut: Callable[[], int]) -> None:
    """The rollback fails. Admit reports an outage of the database and not an unknown driver error."""

    def fail() -> None:
        with session_scope(CredentialScope(""), engine=engine) as session:
            session.scalar(text("SELECT 1"))
            assert cut() == 1
            raise DatabaseUnavailable("of another transaction, which was opened in this one")

    with pytest.raises(DatabaseUnavailable):
        fail()
