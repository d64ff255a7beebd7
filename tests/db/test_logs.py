"""Daily partitions, and the append-only audit log."""

from contextlib import nullcontext
from datetime import UTC, datetime, time, timedelta
from uuid import uuid4

import pytest
from sqlalchemy import Connection, Engine, func, select, text
from sqlalchemy.exc import ProgrammingError
from sqlalchemy.orm import Session

from nac.core.audit import service as audit
from nac.kit.clock import utc_now
from nac.kit.db import PlatformScope, TenantScope, session_scope
from nac.kit.errors import InvalidInput
from nac.kit.ids import MspId, TenantId
from nac.models import AuthLog
from tests.factories.rows import make_row

_PARTITION_OF_ROW = text("SELECT tableoid::regclass::text FROM auth_log")


def _write(owner_engine: Engine, at: datetime) -> str:
    with Session(owner_engine) as session, session.begin():
        make_row(session, AuthLog.__table__, TenantId(uuid4()), at=at)
        return str(session.scalar(_PARTITION_OF_ROW))


@pytest.mark.parametrize("days", [-1, 0, 6])
def test_rows_of_recent_and_coming_days_have_a_partition(owner_engine: Engine, days: int) -> None:
    """The partitions were created with the database, possibly yesterday."""
    at = utc_now() + timedelta(days=days)
    assert _write(owner_engine, at) == f"auth_log_{at:%Y%m%d}"


def test_row_in_the_default_moves_to_its_new_partition(owner_engine: Engine, worker_engine: Engine) -> None:
    first = utc_now().date() + timedelta(days=10)
    days = [f"{first + timedelta(days=number):%Y%m%d}" for number in range(3)]
    at = datetime.combine(first + timedelta(days=1), time(23, 59, 59), UTC)
    assert _write(owner_engine, at) == "auth_log_default"
    ensure = select(func.ensure_log_partitions(first, 3))
    with session_scope(PlatformScope(), engine=worker_engine) as session:
        assert session.scalar(ensure) == 12
        assert session.scalar(ensure) == 0
    with owner_engine.begin() as connection:
        partition = f"auth_log_{days[1]}"
        assert connection.scalar(_PARTITION_OF_ROW) == partition
        assert connection.scalar(text(f"SELECT count(*) FROM pg_indexes WHERE tablename = '{partition}'")) == 6
        for day in days:
            _drop_partitions(connection, day)


def _drop_partitions(connection: Connection, day: str) -> None:
    partitions = (f"{parent}_{day}" for parent in ("auth_log", "accounting_log", "session_history", "usage_hours"))
    connection.execute(text(f"DROP TABLE {', '.join(partitions)}"))


@pytest.mark.parametrize(
    ("first", "days", "is_allowed"),
    [
        (-7, 1, True),
        (-8, 1, False),
        (13, 2, True),
        (14, 2, False),
        (0, 16, False),
        (15, 1, False),
        (0, 0, False),
        (0, 2**31 - 1, False),
    ],
)
def test_partitions_are_created_only_for_the_allowed_days(
    owner_engine: Engine, worker_engine: Engine, first: int, days: int, is_allowed: bool
) -> None:
    day = utc_now().date() + timedelta(days=first)
    rejection = pytest.raises(InvalidInput, match=r"log partitions are made for the days from|out of range")
    with (
        nullcontext() if is_allowed else rejection,
        session_scope(PlatformScope(), engine=worker_engine) as session,
    ):
        assert session.scalar(select(func.ensure_log_partitions(day, days))) == 4 * days
    with owner_engine.begin() as connection:
        for number in range(days if is_allowed else 0):
            _drop_partitions(connection, f"{day + timedelta(days=number):%Y%m%d}")


def test_other_roles_neither_create_nor_read_partitions(app_engine: Engine, cell_engine: Engine) -> None:
    for engine in (app_engine, cell_engine):
        with Session(engine) as session, pytest.raises(ProgrammingError, match="permission denied"):
            session.execute(select(func.ensure_log_partitions(utc_now().date(), 1)))
        with engine.connect() as connection:
            today = f"auth_log_{utc_now():%Y%m%d}"
            assert connection.scalar(select(func.has_table_privilege(today, "SELECT"))) is False


def test_audit_entries_in_scope_are_listed_newest_first(app_engine: Engine) -> None:
    tenant_id, other = TenantId(uuid4()), TenantId(uuid4())
    with session_scope(PlatformScope(), engine=app_engine) as session:
        for target, owner in (("one", tenant_id), ("two", other), ("three", tenant_id)):
            audit.append(session, actor="cli:ann", action="site.add", target=target, tenant_id=owner)
    with session_scope(TenantScope(tenant_id), engine=app_engine) as session:
        entries = audit.list_entries(session)
        assert [entry.target for entry in entries] == ["three", "one"]
        older = audit.list_entries(session, tenant_id=tenant_id, before_id=entries[0].id)
        assert [entry.target for entry in older] == ["one"]


def test_audit_entry_of_another_tenant_is_rejected(app_engine: Engine) -> None:
    with (
        pytest.raises(Exception, match="row-level security"),
        session_scope(TenantScope(TenantId(uuid4())), engine=app_engine) as session,
    ):
        audit.append(session, actor="cli:ann", action="site.add", target="x", tenant_id=TenantId(uuid4()))


@pytest.mark.parametrize(
    "statement", ["UPDATE audit_log SET actor = 'x'", "DELETE FROM audit_log", "TRUNCATE audit_log"]
)
def test_audit_log_update_is_rejected_even_for_its_owner(owner_engine: Engine, statement: str) -> None:
    with Session(owner_engine) as session:
        audit.append(session, actor="cli:ann", action="msp.create", target="x", msp_id=MspId(uuid4()))
        with pytest.raises(Exception, match="audit_log is append-only"):
            session.execute(text(statement))
