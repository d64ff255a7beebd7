"""Deletes a tenant's log rows of days that other tenants keep: in small batches, with pauses, at quiet hours."""

import logging
import time as clock
from collections import deque
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from typing import NamedTuple

from sqlalchemy import Engine, text
from sqlalchemy.orm import Session

from nac.core.audit import service as audit
from nac.kit.db import TenantScope, force_ctid_scan, session_scope
from nac.kit.errors import Conflict, Unavailable
from nac.kit.ids import TenantId
from nac.logs.exports import standing_exports
from nac.logs.exports.export_folder import ExportFolder
from nac.logs.exports.standing_exports import DeletionRelease
from nac.logs.log_tables import LogName
from nac.logs.retention import repository
from nac.logs.retention.notices import RETENTION_ACTOR
from nac.logs.retention.plan import LogPlan, TenantPlan, hold_covers_day, midnight

_log = logging.getLogger(__name__)
BATCH_ROWS = 2_000
# Minimum pause after a batch. A pause lasts at least as long as the batch, so deletions use at most half of the time.
PAUSE_SECONDS = 0.02
_DAY = timedelta(days=1)
# Stop soon if rows are locked. Do not wait for the disk, because retention repeats a deletion that a crash loses.
_TRANSACTION_SETTINGS = text(
    "SELECT set_config('lock_timeout', '200ms', true), set_config('synchronous_commit', 'off', true)"
)
_ONLY_EXPORTED = "AND is_written_before(xmin, :before)"
# The rows of a day are in one partition, so a ctid is unique. If the table has an index on the time, each batch starts
# where the previous batch ended, to skip dead rows.
_PICK_SQL = "SELECT ctid::text FROM :table WHERE :those :order LIMIT :most"
_DELETE_SQL = """
WITH gone AS (DELETE FROM :table WHERE :those AND ctid = ANY (CAST(:places AS tid[])) RETURNING :key AS moment)
SELECT count(*), max(moment) FROM gone
"""
_ROWS_OF_DAY = ":key >= :first AND :key < :last AND tenant_id = :tenant :only"
_STATEMENTS = {
    (log, only): tuple(
        text(
            statement.replace(":table", table)
            .replace(":those", _ROWS_OF_DAY)
            .replace(":key", key)
            .replace(":only", f"{only} {over}")
            .replace(":order", order)
        )
        for statement in (_PICK_SQL, _DELETE_SQL)
    )
    for only in ("", _ONLY_EXPORTED)
    for log, table, key, over, order in (
        ("auth", "auth_log", "at", "", "ORDER BY at"),
        ("accounting", "accounting_log", "at", "", "ORDER BY at"),
        ("sessions", "session_history", "stopped_at", "", "ORDER BY stopped_at"),
        ("usage", "usage_hours", "hour", "", ""),
        # Pending CoA requests are kept, however old they are.
        ("coa", "coa_requests", "created_at", "AND ended_at IS NOT NULL", ""),
    )
}
_ORDERED_LOGS = ("auth", "accounting", "sessions")


class DeletionBatch(NamedTuple):
    # Number of rows that the batch selected, and number of rows that it deleted. The numbers differ if another
    # transaction changed or deleted a selected row.
    found: int
    gone: int
    # Minimum time of the rows in the next batch.
    next_first: datetime

    @property
    def is_last(self) -> bool:
        return self.found < BATCH_ROWS


@dataclass(frozen=True, slots=True)
class DeletionWindow:
    """The hours of the day, in the tenant's time zone, at which retention may delete rows. Can include midnight."""

    begins: time
    ends: time

    def is_open(self, plan: TenantPlan, now: datetime) -> bool:
        there = now.astimezone(plan.time_zone).time()
        if self.begins <= self.ends:
            return self.begins <= there < self.ends
        return there >= self.begins or there < self.ends


def delete_rows(
    plans: Sequence[TenantPlan],
    *,
    now: datetime,
    seconds: float,
    folder: ExportFolder,
    most_days: int,
    busy: Collection[tuple[LogName, date]] = (),
    engine: Engine | None = None,
) -> int:
    """Delete expired rows of these tenants for about `seconds`. Returns the number of deleted rows.

    Each batch of rows is a transaction, and tenants take turns. Skips the days in `busy`, because retention will drop
    their partitions. Deletes from at most `most_days` days per tenant and log. `folder` contains the required exports.
    """
    deadline = clock.monotonic() + seconds
    deleted = 0
    waiting = deque((plan, _iter_batches(plan, now, busy, folder, most_days, engine)) for plan in plans)
    while waiting and clock.monotonic() < deadline:
        plan, batches = waiting.popleft()
        began = clock.monotonic()
        try:
            rows = next(batches, None)
        except Unavailable:
            raise
        except Exception:  # house-rule: a fault of one tenant must not stop the others
            _log.exception("cannot delete rows of tenant %s", plan.tenant_id)
            continue
        if rows is not None:
            deleted += rows
            waiting.append((plan, batches))
            clock.sleep(max(PAUSE_SECONDS, clock.monotonic() - began))
    return deleted


def _iter_batches(
    plan: TenantPlan,
    now: datetime,
    busy: Collection[tuple[LogName, date]],
    folder: ExportFolder,
    most_days: int,
    engine: Engine | None,
) -> Iterator[int]:
    for log in plan.logs.values():
        days = [day for day in sorted(log.sizes) if log.gives_up(day) and (log.log, day) not in busy]
        for day in days[:most_days]:
            released = None
            if log.released is not None:
                with session_scope(TenantScope(plan.tenant_id), engine=engine) as session:
                    released = standing_exports.release_day(
                        session, plan.tenant_id, log.log, day, folder=folder, now=now
                    )
                if released is None:
                    continue
            yield from _delete_day(plan.tenant_id, log, day, released, now, engine)


def _delete_day(
    tenant_id: TenantId, log: LogPlan, day: date, released: DeletionRelease | None, now: datetime, engine: Engine | None
) -> Iterator[int]:
    first = midnight(day)
    while True:
        try:
            with session_scope(TenantScope(tenant_id), engine=engine) as session:
                session.execute(_TRANSACTION_SETTINGS)
                if not _is_still_given_up(session, tenant_id, log, day, released, now):
                    return
                before = released.rows_before if released else None
                batch = delete_batch(session, tenant_id, log.log, day, first, before=before)
                if batch.gone and log.is_early(day):
                    repository.add_early_deletion(session, tenant_id, log.log, day, batch.gone)
                if batch.is_last and batch.gone == batch.found:
                    _finish_day(session, tenant_id, log, day, released)
        except Conflict:
            # Another process has locked the rows. The next run of retention tries again.
            return
        yield batch.gone
        if batch.is_last or not batch.gone:
            return
        first = batch.next_first


def _is_still_given_up(
    session: Session, tenant_id: TenantId, log: LogPlan, day: date, released: DeletionRelease | None, now: datetime
) -> bool:
    """Return whether the day must still be deleted: no hold covers it, and its required export is complete.

    Prevents new holds until the transaction ends.
    """
    repository.lock_holds_shared(session)
    if any(hold_covers_day(hold, log.log, day) for hold in repository.list_holds_that_keep(session, tenant_id, now)):
        return False
    return released is None or standing_exports.is_release_valid(session, tenant_id, log.log, day, released)


def delete_batch(
    session: Session, tenant_id: TenantId, log: LogName, day: date, first: datetime, *, before: int | None = None
) -> DeletionBatch:
    """Delete up to BATCH_ROWS rows of the day, from the time `first` on.

    `before` is a transaction id. If it is set, deletes only rows that transactions with an id below `before` wrote.
    """
    parameters: dict[str, object] = {
        "tenant": tenant_id,
        "first": first,
        "last": midnight(day + _DAY),
        "most": BATCH_ROWS,
    }
    only = ""
    if before is not None:
        only, parameters["before"] = _ONLY_EXPORTED, before
    pick, take = _STATEMENTS[log, only]
    places = session.scalars(pick, parameters).all()
    if not places:
        return DeletionBatch(0, 0, first)
    with force_ctid_scan(session):
        gone, last = session.execute(take, parameters | {"places": places}).one()
    return DeletionBatch(len(places), gone, last if log in _ORDERED_LOGS and last is not None else first)


def _finish_day(
    session: Session, tenant_id: TenantId, log: LogPlan, day: date, released: DeletionRelease | None
) -> None:
    """Delete the stored size of the day if no rows are left, and audit early deletions.

    If rows arrive later, the next measurement stores their size.
    """
    if released is None or standing_exports.is_day_empty(session, tenant_id, log.log, day):
        repository.delete_size(session, tenant_id, log.log, day)
    if rows := repository.take_early_deletions(session, tenant_id, log.log, day):
        audit.append(
            session,
            actor=RETENTION_ACTOR,
            action="retention.delete-early",
            target=f"{log.log} {day}",
            tenant_id=tenant_id,
            after={"rows": rows, "estimate": False},
        )
