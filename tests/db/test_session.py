from contextlib import ExitStack
from pathlib import Path

import pytest
from sqlalchemy import Engine, select, text
from sqlalchemy.orm import Session

from nac.kit.db import (
    CredentialScope,
    PlatformScope,
    get_process_engine,
    make_engine,
    require_current_schema,
    session_scope,
    set_process_engine,
)
from nac.kit.db.server_settings import compute_server_settings
from nac.kit.errors import (
    AdmitError,
    AlreadyExists,
    ConnectionsInUse,
    DatabaseUnavailable,
    InvalidInput,
    ScopeViolation,
    describe_problem,
)
from nac.models import Msp
from tests.postgres import Database
from tests.statements import counted


def _write_and_fail(session: Session) -> None:
    session.add(Msp(slug="lost", name="Lost"))
    session.flush()
    raise ZeroDivisionError


def test_leaving_a_scope_commits_and_an_error_rolls_back(app_engine: Engine) -> None:
    with session_scope(PlatformScope(), engine=app_engine) as session:
        session.add(Msp(slug="kept", name="Kept"))
    with pytest.raises(ZeroDivisionError), session_scope(PlatformScope(), engine=app_engine) as session:
        _write_and_fail(session)
    with session_scope(PlatformScope(), engine=app_engine) as session:
        assert session.scalars(select(Msp.slug)).all() == ["kept"]


def test_process_engine_is_the_default(app_engine: Engine) -> None:
    set_process_engine(None)
    with pytest.raises(RuntimeError, match="set_process_engine"):
        get_process_engine()
    set_process_engine(app_engine)
    try:
        with session_scope(PlatformScope()) as session:
            assert session.scalar(text("SELECT current_user")) == "admit_app"
    finally:
        set_process_engine(None)


@pytest.mark.parametrize(
    ("statement", "error", "message"),
    [
        (
            "INSERT INTO msps (slug, name) VALUES ('a', 'A'), ('a', 'B')",
            AlreadyExists,
            "slug: An MSP with this slug already exists",
        ),
        ("INSERT INTO msps (slug, name) VALUES ('A', 'A')", InvalidInput, "^msps.slug: The database rejects a value.$"),
        ("INSERT INTO msps (slug) VALUES ('a')", InvalidInput, "^msps.name: The database rejects a value.$"),
        ("DELETE FROM audit_log", ScopeViolation, "permission denied for table audit_log"),
        ("SELECT 1 / 0", InvalidInput, "division by zero"),
        ("SELECT nonsense", AdmitError, "nonsense"),
    ],
)
def test_driver_error_is_translated(app_engine: Engine, statement: str, error: type[AdmitError], message: str) -> None:
    with pytest.raises(error, match=message), session_scope(PlatformScope(), engine=app_engine) as session:
        session.execute(text(statement))


def test_unresponsive_or_unsupported_database_is_reported(tmp_path: Path) -> None:
    engine = make_engine(f"postgresql://admit_app@/admit?host={tmp_path}")
    with (
        pytest.raises(DatabaseUnavailable, match="Check that PostgreSQL is running") as refused,
        session_scope(PlatformScope(), engine=engine) as session,
    ):
        session.execute(text("SELECT 1"))
    # Only the log shows the address of the database.
    assert str(tmp_path) in str(refused.value)
    assert str(tmp_path) in repr(refused.value)
    assert str(tmp_path) not in str(describe_problem(refused.value))
    with pytest.raises(DatabaseUnavailable):
        require_current_schema(engine)
    with pytest.raises(InvalidInput, match="Unsupported database mysql"):
        make_engine("mysql://localhost/x")


@pytest.mark.parametrize(
    ("asked", "settings"),
    [("", ("off", "4MB")), ("&options=-cwork_mem%3D8MB", ("off", "8MB")), ("&options=-cjit%3Don", ("on", "4MB"))],
)
def test_jit_is_off_unless_the_url_enables_it(database: Database, asked: str, settings: tuple[str, str]) -> None:
    engine = make_engine(database.app_url + asked)
    with engine.connect() as connection:
        told = connection.execute(text("SELECT current_setting('jit'), current_setting('work_mem')")).one()
    engine.dispose()
    assert told == settings


def test_credential_scope_uses_cached_query_plans(database: Database) -> None:
    engine = make_engine(database.app_url, settings=("plan_cache_mode=force_custom_plan",))
    mode = text("SHOW plan_cache_mode")
    with session_scope(CredentialScope("shown"), engine=engine) as session:
        assert session.scalar(mode) == "auto"
    with session_scope(PlatformScope(), engine=engine) as session:
        assert session.scalar(mode) == "force_custom_plan"
    engine.dispose()


@pytest.mark.parametrize("is_snapshot", [False, True])
@pytest.mark.parametrize("shown", ["", "x'; SELECT set_config('admit.platform', 'on', true); --", "\\' \"ä", "$1 %s"])
def test_scope_values_are_not_interpreted_as_sql(app_engine: Engine, shown: str, is_snapshot: bool) -> None:
    # The second query may use another pooled connection, which has had no credential.
    asked = text(
        "SELECT coalesce(current_setting('admit.credential_id', true), ''), scope_is_platform(),"
        " current_setting('transaction_isolation')"
    )
    with session_scope(CredentialScope(shown), engine=app_engine, is_snapshot=is_snapshot) as session:
        level = "repeatable read" if is_snapshot else "read committed"
        assert session.execute(asked).one() == (shown, False, level)
    # The transaction begins in one message.
    with counted(app_engine) as statements, session_scope(PlatformScope(), engine=app_engine) as session:
        assert session.execute(asked).one() == ("", True, "read committed")
    assert len(statements) == 1


def test_exhausted_connections_are_an_outage(database: Database):
    engine = make_engine(database.app_url, pool_size=1, wait_seconds=0.1)
    with ExitStack() as taken:
        taken.callback(engine.dispose)
        for _ in range(engine.pool.size() + engine.pool._max_overflow):
            taken.enter_context(session_scope(PlatformScope(), engine=engine))
        with pytest.raises(ConnectionsInUse) as refused:
            taken.enter_context(session_scope(PlatformScope(), engine=engine))
        assert (refused.value.status, refused.value.retry_after_seconds) == (503, 5)


@pytest.mark.parametrize(("gigabytes", "buffers"), [(1, "256MB"), (2, "256MB"), (24, "3072MB"), (256, "4096MB")])
def test_buffers_are_an_eighth_of_memory_within_bounds(gigabytes: int, buffers: str) -> None:
    assert compute_server_settings(gigabytes << 30)["shared_buffers"] == buffers
