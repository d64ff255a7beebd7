"""What people and scripts are told before rows go early, or without having been exported."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

from sqlalchemy import delete
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from nac.audit import service as audit
from nac.exports import standing
from nac.ids import TenantId
from nac.models import RetentionNotice
from nac.retention import budget
from nac.retention.plan import WARNING_DAYS, LogPlan, TenantPlan

ACTOR = "system:retention"
# Of the budget. A notice that stands goes where less is used, so that it does not come and go.
WARN_AT = 0.8
CLEAR_BELOW = 0.75
_DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Notice:
    kind: str
    expected_on: date | None
    detail: str


def refresh(session: Session, plan: TenantPlan, *, now: datetime) -> list[RetentionNotice]:
    """Write what holds at `now`, in the tenant's scope; returns what is new. Those of before keep their date."""
    new = []
    for log in plan.logs.values():
        holding = {notice.kind: notice for notice in _due(session, plan.tenant_id, log, now)}
        for kind, standing_notice in log.notices.items():
            if kind not in holding:
                session.execute(
                    delete(RetentionNotice).where(
                        RetentionNotice.tenant_id == plan.tenant_id,
                        RetentionNotice.log == log.log,
                        RetentionNotice.kind == standing_notice.kind,
                    )
                )
        for notice in holding.values():
            row = {
                "tenant_id": plan.tenant_id,
                "log": log.log,
                "kind": notice.kind,
                "since": now,
                "expected_on": notice.expected_on,
                "detail": notice.detail,
            }
            told = {"expected_on": notice.expected_on, "detail": notice.detail}
            session.execute(
                insert(RetentionNotice).values(row).on_conflict_do_update(constraint="pk_retention_notices", set_=told)
            )
            if notice.kind not in log.notices:
                new.append(RetentionNotice(**row))
                _record(session, plan.tenant_id, log, notice)
    return new


def _record(session: Session, tenant_id: TenantId, log: LogPlan, notice: Notice) -> None:
    after = {"expected_on": notice.expected_on and notice.expected_on.isoformat(), "detail": notice.detail}
    audit.append(
        session,
        actor=ACTOR,
        action=f"retention.warn-{notice.kind}",
        target=log.log,
        tenant_id=tenant_id,
        after=after,
    )


def _due(session: Session, tenant_id: TenantId, log: LogPlan, now: datetime) -> Iterator[Notice]:
    if log.bytes is not None:
        used = budget.total(log.sizes, since=log.oldest)
        stands = log.notices.get("budget")
        if used >= (CLEAR_BELOW if stands else WARN_AT) * log.bytes:
            yield _of_budget(log, used, log.bytes, stands.since if stands else now)
    if log.export_format is not None:
        late = [
            (day, job)
            for day, job in standing.ordered_days(session, tenant_id, log.log).items()
            if standing.is_holding_up(job, now) and day in log.sizes
        ]
        if late:
            day, job = min(late)
            limit = standing.overdue_at(job, log.export_wait_days).astimezone(UTC).date()
            why = f": {job.error}" if job.error else "."
            detail = (
                f"{len(late)} days wait to be exported before they are deleted, the first is {day}{why}"
                f" It is deleted on {limit} all the same."
            )
            yield Notice("export", limit, detail)


def _of_budget(log: LogPlan, used: int, most: int, since: datetime) -> Notice:
    expected = budget.exceeded_on(log.sizes, today=log.today, days=log.days, budget=most)
    told = f"{used / most:.0%} of {most} bytes are used (estimate)."
    if expected is None:
        return Notice("budget", None, f"{told} At the present rate nothing is deleted early.")
    early = max(expected, since.astimezone(UTC).date() + WARNING_DAYS * _DAY, log.today)
    floor = log.today - log.limits.floor_days * _DAY
    if budget.first_kept_day(log.sizes, since=log.oldest, budget=most) > floor:
        told += f" The last {log.limits.floor_days} days alone are more; these stay."
    return Notice("budget", early, f"{told} From {early} on, the oldest days are deleted before their {log.days} days.")
