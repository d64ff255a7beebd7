"""Notices to tenants about early deletions, shorter retention, and deletions that wait for an export."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

from sqlalchemy import delete
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from nac.core.audit import service as audit
from nac.kit.ids import TenantId
from nac.kit.text_format import format_size
from nac.logs.exports import standing_exports
from nac.logs.retention import repository
from nac.logs.retention.plan import LogPlan, TenantPlan, first_kept_day, predict_exceeded_day, sum_bytes
from nac.logs.retention.terms import NOTICE_PERIOD, UNBOUNDED
from nac.models import RetentionHold, RetentionNotice

RETENTION_ACTOR = "system:retention"
# Shares of the budget at which a notice starts and ends. The two shares differ, so that the notice does not flap.
WARN_SHARE = 0.8
CLEAR_SHARE = 0.75
_DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class DueNotice:
    kind: str
    # Time when the condition of the notice began.
    since: datetime
    expected_on: date | None
    detail: str


def refresh_notices(session: Session, plan: TenantPlan, *, now: datetime) -> list[RetentionNotice]:
    """Update the tenant's notices. Returns notices that are new, or whose `since` is later than before."""
    new = []
    for log in plan.logs.values():
        if log.has_new_terms:
            repository.store_terms(session, plan.tenant_id, log.log, log.terms)
        holding = {notice.kind: notice for notice in _iter_due(session, plan.tenant_id, log, now)}
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
                "since": notice.since,
                "expected_on": notice.expected_on,
                "detail": notice.detail,
            }
            values = {"since": notice.since, "expected_on": notice.expected_on, "detail": notice.detail}
            session.execute(
                insert(RetentionNotice)
                .values(row)
                .on_conflict_do_update(constraint="pk_retention_notices", set_=values)
            )
            if notice.kind not in log.notices or notice.since > log.notices[notice.kind].since:
                new.append(RetentionNotice(**row))
                _audit_notice(session, plan.tenant_id, log, notice)
    return new


def _audit_notice(session: Session, tenant_id: TenantId, log: LogPlan, notice: DueNotice) -> None:
    after = {"expected_on": notice.expected_on and notice.expected_on.isoformat(), "detail": notice.detail}
    audit.append(
        session,
        actor=RETENTION_ACTOR,
        action=f"retention.warn-{notice.kind}",
        target=log.log,
        tenant_id=tenant_id,
        after=after,
    )


def _iter_due(session: Session, tenant_id: TenantId, log: LogPlan, now: datetime) -> Iterator[DueNotice]:
    since = {kind: notice.since for kind, notice in log.notices.items()}
    if log.bytes is not None:
        used = sum_bytes(log.sizes, since=log.oldest)
        if used >= (CLEAR_SHARE if "budget" in since else WARN_SHARE) * log.bytes:
            yield _budget_notice(log, used, log.bytes, since.get("budget", now))
    cleared = [hold for hold in log.holds if hold.cleared_at is not None]
    if log.terms.announced or cleared:
        yield _change_notice(log, cleared)
    if log.released is not None:
        jobs = standing_exports.jobs_by_day(session, tenant_id, log.log)
        late = sorted(
            day
            for day in log.sizes
            if day < log.keep_from
            and day not in log.released
            and (standing_exports.is_delaying_deletion(jobs[day], now) if day in jobs else log.export_format is None)
        )
        if late:
            error = jobs[late[0]].error if late[0] in jobs else ""
            detail = (
                f"{len(late)} days are not deleted because their export is missing, from {late[0]}"
                f" on{f': {error}' if error else '.'}"
            )
            yield DueNotice("export", since.get("export", now), None, detail)


def _budget_notice(log: LogPlan, used: int, most: int, since: datetime) -> DueNotice:
    expected = predict_exceeded_day(log.sizes, today=log.today, days=log.days, budget=most)
    summary = f"{used / most:.0%} of {format_size(most)} are used (estimate)."
    if expected is None:
        return DueNotice("budget", since, None, f"{summary} At the current growth rate nothing is deleted early.")
    lowered_at = log.terms.parts["bytes"].announced_at
    waited = max(since, lowered_at) if lowered_at else since
    early = max(expected, _in_force_on(waited), log.today)
    floor = log.today - log.limits.floor_days * _DAY
    if first_kept_day(log.sizes, since=log.oldest, budget=most) > floor:
        summary += f" The last {log.limits.floor_days} days exceed the budget and are kept."
    detail = f"{summary} From {early} on, the oldest days are deleted before {log.days} days have passed."
    return DueNotice("budget", since, early, detail)


def _change_notice(log: LogPlan, cleared: Sequence[RetentionHold]) -> DueNotice:
    changes, dates = [], []
    for hold in cleared:
        assert hold.cleared_at is not None
        dates.append(hold.cleared_at)
        changes.append(f"from {_in_force_on(hold.cleared_at)} on, hold {hold.id} no longer applies")
    for name, part in log.terms.announced.items():
        assert part.announced is not None
        assert part.announced_at is not None
        dates.append(part.announced_at)
        before = part.value
        changes.append(
            f"from {_in_force_on(part.announced_at)} on, "
            + {
                "days": f"{part.announced} days are kept instead of {before}",
                "floor": f"a budget keeps at least the last {part.announced} days instead of {before}",
                "bytes": f"{format_size(part.announced)} are kept instead of {_format_budget(part.value)}",
                "export": "days are deleted without an export",
            }[name]
        )
    lost = sum(log.is_lost(day) for day in log.sizes)
    detail = f"Admit will keep less data: {', '.join(changes)}. This deletes {lost} existing days."
    return DueNotice("change", max(dates), _in_force_on(min(dates)), detail)


def _format_budget(budget: int) -> str:
    return "any number" if budget == UNBOUNDED else format_size(budget)


def _in_force_on(announced_at: datetime) -> date:
    return (announced_at + NOTICE_PERIOD).astimezone(UTC).date()
