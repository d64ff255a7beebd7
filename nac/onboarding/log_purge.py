"""Deletes the logs of purged tenants, in batches because a log can have millions of rows."""

import time
from collections.abc import Mapping
from datetime import timedelta

from sqlalchemy import CursorResult, Delete, Engine, Executable, delete, exists, func, select, text
from sqlalchemy.orm import Session

from nac.kit.db import PlatformScope, TenantScope, force_ctid_scan, session_scope
from nac.kit.db.base import Base
from nac.kit.db.declarations import Purge, describe_table
from nac.kit.ids import TenantId
from nac.logs.retention import measurement, row_deletion
from nac.logs.retention.plan import midnight
from nac.models import (
    USAGE_HOURS,
    AccountingLog,
    AuthLog,
    EndedSession,
    EventNote,
    PurgedTenant,
    QuarantinedRecord,
    Tenant,
)

BATCH_ROWS = 5_000
# Time after a purge during which a slow or hung cell can still write rows of the tenant.
LATE_ROWS_WINDOW = timedelta(days=1)
_LATE_TABLES = [table for table in Base.metadata.sorted_tables if describe_table(table).purge is Purge.LATE_ROWS]
_PICK_SQL = "SELECT at, ctid::text AS place FROM :log WHERE tenant_id = :tenant ORDER BY at LIMIT :most"
# A ctid is unique only within a partition. The statement may match rows of other partitions with the same ctid. Such
# rows also belong to the purged tenant, so deleting them is correct.
_DELETE_SQL = """
DELETE FROM :log WHERE tenant_id = :tenant AND at BETWEEN :first AND :last AND ctid = ANY (CAST(:places AS tid[]))
"""


def delete_logs(*, seconds: float, engine: Engine | None = None) -> int:
    """Delete logs of purged tenants for about `seconds`. Returns the number of deleted rows.

    Requires the database role admit_worker. Each batch is a transaction. Several processes can run this function
    concurrently, and you can repeat it.
    """
    deadline = time.monotonic() + seconds
    with session_scope(PlatformScope(), engine=engine) as session:
        deleted = _execute_and_count(session, _delete_orphans())
        purged = session.scalars(select(PurgedTenant.tenant_id).order_by(PurgedTenant.purged_at)).all()
    for tenant_id in purged:
        rows, is_over = _delete_rows_of_tenant(tenant_id, deadline, engine)
        deleted += rows
        if time.monotonic() > deadline:
            return deleted
        if is_over:
            with session_scope(PlatformScope(), engine=engine) as session:
                session.execute(
                    delete(PurgedTenant).where(
                        PurgedTenant.tenant_id == tenant_id, PurgedTenant.purged_at < func.now() - LATE_ROWS_WINDOW
                    )
                )
    return deleted


def _delete_rows_of_tenant(tenant_id: TenantId, deadline: float, engine: Engine | None) -> tuple[int, bool]:
    """Delete rows of the tenant. Returns the number of deleted rows, and whether no rows are left.

    Stops if another process has locked the remaining rows.
    """
    deleted = 0
    while True:
        with session_scope(TenantScope(tenant_id), engine=engine) as session:
            found, gone = _delete_batch(session, tenant_id)
        deleted += gone
        if not found:
            rows, is_over = _delete_days(tenant_id, deadline, engine)
            return deleted + rows, is_over
        if not gone or time.monotonic() > deadline:
            return deleted, False


def _delete_days(tenant_id: TenantId, deadline: float, engine: Engine | None) -> tuple[int, bool]:
    """Delete ended sessions and usage: first each partition in batches, then the other rows, one statement per table.

    Returns the number of deleted rows, and whether no rows are left.
    """
    deleted = 0
    for log, day in measurement.list_partitions(("sessions", "usage"), engine=engine):
        first, is_last = midnight(day), False
        while not is_last:
            if time.monotonic() > deadline:
                return deleted, False
            with session_scope(TenantScope(tenant_id), engine=engine) as session:
                batch = row_deletion.delete_batch(session, tenant_id, log, day, first)
            deleted += batch.gone
            if batch.gone < batch.found:
                return deleted, False
            first, is_last = batch.next_first, batch.is_last
    with session_scope(TenantScope(tenant_id), engine=engine) as session:
        deleted += _execute_and_count(session, delete(EndedSession).where(EndedSession.tenant_id == tenant_id))
        deleted += _execute_and_count(session, delete(USAGE_HOURS).where(USAGE_HOURS.c.tenant_id == tenant_id))
    return deleted, True


def _delete_orphans() -> Delete:
    """Return the statement that deletes quarantined records of deleted tenants. Admit cannot process these records."""
    return delete(QuarantinedRecord).where(
        QuarantinedRecord.tenant_id.is_not(None), ~exists().where(Tenant.id == QuarantinedRecord.tenant_id)
    )


def _delete_batch(session: Session, tenant_id: TenantId) -> tuple[int, int]:
    """Delete a batch of rows from each table. Returns the number of selected rows, and the number of deleted rows."""
    found = deleted = 0
    for log in (AuthLog, AccountingLog, EventNote):
        pick, take = (text(statement.replace(":log", log.__tablename__)) for statement in (_PICK_SQL, _DELETE_SQL))
        rows = session.execute(pick, {"tenant": tenant_id, "most": BATCH_ROWS}).all()
        if rows:
            places = [row.place for row in rows]
            found += len(rows)
            parameters = {"tenant": tenant_id, "first": rows[0].at, "last": rows[-1].at, "places": places}
            with force_ctid_scan(session):
                deleted += _execute_and_count(session, take, parameters)
    for table in _LATE_TABLES:
        gone = _execute_and_count(session, delete(table).where(table.c.tenant_id == tenant_id))
        found, deleted = found + gone, deleted + gone
    return found, deleted


def _execute_and_count(session: Session, statement: Executable, parameters: Mapping[str, object] | None = None) -> int:
    result = session.execute(statement, parameters, execution_options={"synchronize_session": False})
    assert isinstance(result, CursorResult)
    return result.rowcount
