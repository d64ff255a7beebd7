"""Logs of purged tenants are deleted in batches. Logs of other tenants remain."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from itertools import product
from uuid import uuid4

from sqlalchemy import Engine, delete, func, insert, select, update
from sqlalchemy.orm import Session

from nac.kit.clock import utc_now
from nac.kit.db import PlatformScope, session_scope
from nac.kit.db.base import Base
from nac.kit.ids import TenantId
from nac.logs.retention import row_deletion
from nac.models import (
    AccountingLog,
    AuthLog,
    Cell,
    DecisionCount,
    EndpointEvidence,
    EndpointSighting,
    EndpointWork,
    PolicyHits,
    PurgedTenant,
    QuarantinedRecord,
    RadiusSession,
    RejectCount,
)
from nac.onboarding import log_purge, tenant_purge
from nac.tenancy.tenants import service as tenants
from tests.factories.rows import make_row
from tests.factories.tenancy import ACTOR
from tests.factories.tenant_fixtures import two_tenants

__all__ = ["two_tenants"]

UNREFERENCED = (RadiusSession, EndpointSighting, EndpointEvidence, EndpointWork, PolicyHits, DecisionCount, RejectCount)
LOGS = (AuthLog, AccountingLog, *UNREFERENCED)
KEYS = {"session_history": "stopped_at", "usage_hours": "hour"}


def purge_tenant(app_engine: Engine, tenant_id: TenantId) -> None:
    with session_scope(PlatformScope(), engine=app_engine) as session:
        tenants.delete_tenant(session, actor=ACTOR, tenant_id=tenant_id)
        tenant_purge.purge_tenant(session, actor=ACTOR, tenant_id=tenant_id)


def add_logs(owner_engine: Engine, tenant_id: TenantId, *, rows: int) -> None:
    """Add logs of several days, some of them outside every daily partition."""
    with Session(owner_engine) as session, session.begin():
        for number in range(rows):
            for log in (AuthLog, AccountingLog):
                make_row(session, log.__table__, tenant_id, at=utc_now() - timedelta(days=number % 4))
        for log in UNREFERENCED:
            make_row(session, log.__table__, tenant_id)


def rows(owner_engine: Engine, tenant_id: TenantId) -> list[int]:
    with Session(owner_engine) as session:
        return [session.scalars(select(func.count()).where(log.tenant_id == tenant_id)).one() for log in LOGS]


def purged_tenants(owner_engine: Engine) -> list[TenantId]:
    with Session(owner_engine) as session:
        return list(session.scalars(select(PurgedTenant.tenant_id)))


def test_only_logs_of_a_purged_tenant_are_deleted(app_engine, owner_engine, worker_engine, two_tenants, monkeypatch):
    monkeypatch.setattr(log_purge, "BATCH_ROWS", 7)
    alpha, bravo = two_tenants
    for tenant_id in two_tenants:
        add_logs(owner_engine, tenant_id, rows=20)
    assert log_purge.delete_logs(seconds=60, engine=worker_engine) == 0
    with session_scope(PlatformScope(), engine=app_engine) as session:
        tenants.delete_tenant(session, actor=ACTOR, tenant_id=alpha)
    # A deleted tenant keeps its logs until its purge.
    assert log_purge.delete_logs(seconds=60, engine=worker_engine) == 0
    assert rows(owner_engine, alpha) == [20, 20, 1, 1, 1, 1, 1, 1, 1]
    with session_scope(PlatformScope(), engine=app_engine) as session:
        tenant_purge.purge_tenant(session, actor=ACTOR, tenant_id=alpha)
    assert rows(owner_engine, alpha) == [20, 20, 0, 0, 0, 0, 0, 0, 0]
    assert log_purge.delete_logs(seconds=60, engine=worker_engine) == 40
    assert rows(owner_engine, alpha) == [0, 0, 0, 0, 0, 0, 0, 0, 0]
    assert rows(owner_engine, bravo) == [20, 20, 1, 1, 1, 1, 1, 1, 1]


def test_timed_out_run_leaves_the_rest_to_the_next(app_engine, owner_engine, worker_engine, two_tenants, monkeypatch):
    monkeypatch.setattr(log_purge, "BATCH_ROWS", 5)
    alpha, _ = two_tenants
    add_logs(owner_engine, alpha, rows=12)
    purge_tenant(app_engine, alpha)
    assert [log_purge.delete_logs(seconds=-1, engine=worker_engine) for _ in range(4)] == [10, 10, 4, 0]


def test_purged_tenant_is_checked_for_late_rows_for_a_day(app_engine, owner_engine, worker_engine, two_tenants):
    alpha, _ = two_tenants
    purge_tenant(app_engine, alpha)
    log_purge.delete_logs(seconds=60, engine=worker_engine)
    add_logs(owner_engine, alpha, rows=1)
    assert log_purge.delete_logs(seconds=60, engine=worker_engine) == len(LOGS)
    assert purged_tenants(owner_engine) == [alpha]
    with Session(owner_engine) as session, session.begin():
        longer = log_purge.LATE_ROWS_WINDOW + timedelta(minutes=1)
        session.execute(update(PurgedTenant).values(purged_at=utc_now() - longer))
    log_purge.delete_logs(seconds=60, engine=worker_engine)
    assert purged_tenants(owner_engine) == []


def test_tenant_is_remembered_while_its_rows_are_locked(
    app_engine, owner_engine, worker_engine, two_tenants, monkeypatch
):
    alpha, _ = two_tenants
    monkeypatch.setattr(log_purge, "BATCH_ROWS", 4)
    add_logs(owner_engine, alpha, rows=8)
    purge_tenant(app_engine, alpha)
    with Session(owner_engine) as session, session.begin():
        session.execute(update(PurgedTenant).values(purged_at=utc_now() - 2 * log_purge.LATE_ROWS_WINDOW))

    @contextmanager
    def beside(session: Session) -> Iterator[None]:
        """Another process locks the selected rows, and is killed before it locks the others."""
        with Session(owner_engine) as other, other.begin():
            for log in (AuthLog, AccountingLog):
                picked = select(log.id).where(log.tenant_id == alpha).order_by(log.at).limit(4)
                other.execute(delete(log).where(log.id.in_(picked)))
        yield

    with monkeypatch.context() as patched:
        patched.setattr(log_purge, "force_ctid_scan", beside)
        patched.setattr(log_purge, "_delete_days", lambda *_: (0, True))
        patched.setattr(log_purge, "_LATE_TABLES", ())
        assert log_purge.delete_logs(seconds=60, engine=worker_engine) == 0
    assert purged_tenants(owner_engine) == [alpha]
    log_purge.delete_logs(seconds=60, engine=worker_engine)
    assert (purged_tenants(owner_engine), rows(owner_engine, alpha)) == ([], [0] * len(LOGS))


def test_ended_sessions_and_usage_are_deleted_too(app_engine, owner_engine, worker_engine, two_tenants, monkeypatch):
    monkeypatch.setattr(row_deletion, "BATCH_ROWS", 5)
    tables = [Base.metadata.tables[name] for name in KEYS]
    with Session(owner_engine) as session, session.begin():
        for tenant_id, table, days in product(two_tenants, tables, (0, 0, 0, 0, 0, 0, 0, 1, 400)):
            make_row(session, table, tenant_id, **{KEYS[table.name]: utc_now() - timedelta(days=days)})
    alpha, bravo = two_tenants
    purge_tenant(app_engine, alpha)
    assert log_purge.delete_logs(seconds=60, engine=worker_engine) == 2 * 9
    with Session(owner_engine) as session:
        assert {row for table in tables for row in session.scalars(select(table.c.tenant_id))} == {bravo}


def test_quarantined_records_are_deleted_only_with_their_tenant(app_engine, owner_engine, worker_engine, two_tenants):
    alpha, bravo = two_tenants
    with Session(owner_engine) as session, session.begin():
        cell_id = session.scalars(select(Cell.id)).one()
        for tenant_id in (alpha, bravo, None, uuid4()):
            values = {"cell_id": cell_id, "stream": "auth", "tenant_id": tenant_id, "why": "x", "payload": b"x"}
            session.execute(insert(QuarantinedRecord).values(values))
    purge_tenant(app_engine, alpha)
    # The records of alpha, and records of an unknown tenant.
    assert log_purge.delete_logs(seconds=60, engine=worker_engine) == 2
    with Session(owner_engine) as session:
        assert set(session.scalars(select(QuarantinedRecord.tenant_id))) == {bravo, None}
