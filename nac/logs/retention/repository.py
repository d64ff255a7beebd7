from collections.abc import Sequence
from datetime import date, datetime
from typing import cast

from sqlalchemy import delete, func, or_, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from nac.kit.db.sort_orders import PageSpan, SortOrders
from nac.kit.ids import TenantId
from nac.logs.log_tables import LogName
from nac.logs.retention.terms import NOTICE_PERIOD, LogTerms, PartName, TermPart
from nac.models import (
    EarlyDeletion,
    LogSize,
    RetentionHold,
    RetentionLimits,
    RetentionNotice,
    RetentionSetting,
    RetentionTerm,
    Site,
    Tenant,
)

HOLD_ORDERS = SortOrders({"set_at": (RetentionHold.created_at, RetentionHold.id)})
# A deletion takes this advisory lock in shared mode. A new hold takes the lock exclusively, so it waits for running
# deletions.
_HOLDS_LOCK = func.hashtext("retention_holds")


def list_limits(session: Session) -> Sequence[RetentionLimits]:
    return session.scalars(select(RetentionLimits)).all()


def list_settings(session: Session, tenant_id: TenantId) -> Sequence[RetentionSetting]:
    return session.scalars(select(RetentionSetting).where(RetentionSetting.tenant_id == tenant_id)).all()


def get_setting(session: Session, tenant_id: TenantId, log: str) -> RetentionSetting | None:
    return session.get(RetentionSetting, (tenant_id, log))


def lock_limits(session: Session, log: str) -> None:
    """Lock the platform's limits of a log, even if the database has no row for these limits."""
    session.execute(select(func.pg_advisory_xact_lock(func.hashtextextended(f"retention limits {log}", 0))))


def lock_setting(session: Session, tenant_id: TenantId, log: str) -> RetentionSetting:
    """Return and lock the tenant's setting of the log. Creates the setting if it is missing."""
    session.execute(insert(RetentionSetting).values(tenant_id=tenant_id, log=log).on_conflict_do_nothing())
    query = select(RetentionSetting).where(RetentionSetting.tenant_id == tenant_id, RetentionSetting.log == log)
    return session.scalars(query.with_for_update().execution_options(populate_existing=True)).one()


def get_terms(session: Session, tenant_id: TenantId) -> dict[LogName, LogTerms]:
    """Return the stored retention values of each log of the tenant."""
    parts: dict[LogName, dict[PartName, TermPart]] = {}
    for row in session.scalars(select(RetentionTerm).where(RetentionTerm.tenant_id == tenant_id)):
        of_log = parts.setdefault(cast("LogName", row.log), {})
        of_log[cast("PartName", row.part)] = TermPart(row.value, row.announced, row.announced_at)
    return {log: LogTerms(found) for log, found in parts.items()}


def store_terms(session: Session, tenant_id: TenantId, log: LogName, stored: LogTerms) -> None:
    """Store the retention values in `stored`. The log's other retention values stay unchanged."""
    rows = _term_rows(tenant_id, log, stored)
    if not rows:
        return
    statement = insert(RetentionTerm).values(rows)
    values = {name: statement.excluded[name] for name in ("value", "announced", "announced_at")}
    session.execute(statement.on_conflict_do_update(constraint="pk_retention_terms", set_=values))


def create_terms(session: Session, tenant_id: TenantId, log: LogName, found: LogTerms) -> None:
    """Store the first retention values of a log. Values that are already stored stay unchanged."""
    if rows := _term_rows(tenant_id, log, found):
        session.execute(insert(RetentionTerm).values(rows).on_conflict_do_nothing())


def _term_rows(tenant_id: TenantId, log: LogName, terms: LogTerms) -> list[dict[str, object]]:
    return [
        {
            "tenant_id": tenant_id,
            "log": log,
            "part": name,
            "value": part.value,
            "announced": part.announced,
            "announced_at": part.announced_at,
        }
        for name, part in terms.parts.items()
    ]


def add_early_deletion(session: Session, tenant_id: TenantId, log: str, day: date, rows: int) -> None:
    """Add `rows` to the number of the day's rows that were deleted early."""
    statement = insert(EarlyDeletion).values(tenant_id=tenant_id, log=log, day=day, rows=rows)
    more = {"rows": EarlyDeletion.rows + statement.excluded.rows}
    session.execute(statement.on_conflict_do_update(constraint="pk_early_deletions", set_=more))


def take_early_deletions(session: Session, tenant_id: TenantId, log: str, day: date) -> int:
    """Return the number of the day's rows that were deleted early, and reset the number to 0."""
    matches = (EarlyDeletion.tenant_id == tenant_id, EarlyDeletion.log == log, EarlyDeletion.day == day)
    return session.scalar(delete(EarlyDeletion).where(*matches).returning(EarlyDeletion.rows)) or 0


def lock_holds_shared(session: Session) -> None:
    """Prevent new holds until the transaction ends. Statements after the lock see all committed holds."""
    session.execute(select(func.pg_advisory_xact_lock_shared(_HOLDS_LOCK)))


def lock_holds_exclusive(session: Session) -> None:
    """Wait for running deletions, and prevent new deletions until the transaction ends."""
    session.execute(select(func.pg_advisory_xact_lock(_HOLDS_LOCK)))


def list_holds_in_force(session: Session, tenant_id: TenantId) -> Sequence[RetentionHold]:
    query = select(RetentionHold).where(RetentionHold.tenant_id == tenant_id, RetentionHold.cleared_at.is_(None))
    return session.scalars(query.order_by(RetentionHold.id)).all()


def list_holds_that_keep(session: Session, tenant_id: TenantId, now: datetime) -> Sequence[RetentionHold]:
    """Return active holds, and holds that were cleared less than NOTICE_PERIOD ago."""
    query = select(RetentionHold).where(
        RetentionHold.tenant_id == tenant_id,
        or_(RetentionHold.cleared_at.is_(None), RetentionHold.cleared_at > now - NOTICE_PERIOD),
    )
    return session.scalars(query.order_by(RetentionHold.id)).all()


def list_holds(
    session: Session, tenant_id: TenantId, *, span: PageSpan | None, in_force: bool | None
) -> Sequence[RetentionHold]:
    query = select(RetentionHold).where(RetentionHold.tenant_id == tenant_id)
    if in_force is not None:
        cleared = RetentionHold.cleared_at.is_not(None)
        query = query.where(~cleared if in_force else cleared)
    query = HOLD_ORDERS[HOLD_ORDERS.default].apply_to(query) if span is None else span.of(query)
    return session.scalars(query).all()


def get_hold(session: Session, tenant_id: TenantId, hold_id: int, *, lock: bool = False) -> RetentionHold | None:
    query = select(RetentionHold).where(RetentionHold.tenant_id == tenant_id, RetentionHold.id == hold_id)
    return session.scalar(query.with_for_update() if lock else query)


def delete_holds(session: Session, tenant_id: TenantId) -> None:
    session.execute(delete(RetentionHold).where(RetentionHold.tenant_id == tenant_id))


def list_sizes(session: Session, tenant_id: TenantId) -> Sequence[LogSize]:
    return session.scalars(select(LogSize).where(LogSize.tenant_id == tenant_id).order_by(LogSize.day)).all()


def delete_size(session: Session, tenant_id: TenantId, log: str, day: date) -> None:
    session.execute(delete(LogSize).where(LogSize.tenant_id == tenant_id, LogSize.log == log, LogSize.day == day))


def list_notices(session: Session, tenant_id: TenantId) -> Sequence[RetentionNotice]:
    query = select(RetentionNotice).where(RetentionNotice.tenant_id == tenant_id)
    return session.scalars(query.order_by(RetentionNotice.log, RetentionNotice.kind)).all()


def get_time_zone(session: Session, tenant_id: TenantId) -> str:
    """Return the time zone of the tenant's default site; UTC if the tenant has no default site."""
    query = select(Site.time_zone).join(Tenant, Tenant.default_site_id == Site.id).where(Tenant.id == tenant_id)
    return session.scalar(query) or "UTC"
