"""Numbers of decisions, for charts. The numbers come from counts, not from the authentication log."""

from datetime import datetime
from typing import Annotated

from fastapi import Depends, Query
from pydantic import BaseModel, Field

from api.access import Access, ReadsTenant
from api.routes import NounRouter
from api.v1.timestamps import PastMoment
from nac.kit.permissions import Permission
from nac.sessions.decisions import counts
from nac.sessions.decisions.counts import Interval

router = NounRouter(
    prefix="/tenants/{tenant}",
    tag="decision counts",
    description="Numbers of authentication decisions by time and by reason, for charts.",
)

Reads = Annotated[Access, Depends(ReadsTenant(Permission.LOG_READ))]
_Until = Annotated[PastMoment | None, Query(description="End of the counted period (exclusive). Default: now.")]


class DecisionCount(BaseModel):
    start: datetime = Field(description="Start of the minute, hour or day (UTC).")
    permitted: int = Field(examples=[118], description="Number of admitted requests, except requests in `quarantined`.")
    quarantined: int = Field(examples=[2], description="Number of requests that Admit admitted to the quarantine.")
    rejected: int = Field(examples=[7], description="Number of rejected requests.")


class DecisionCountList(BaseModel):
    items: list[DecisionCount] = Field(description="Counts of all intervals of the period, oldest first.")


class RejectReason(BaseModel):
    reason: str = Field(examples=["unknown-mac"], description="Reason code of the rejects, as in `listDecisions`.")
    title: str = Field(examples=["Unknown device"], description="Meaning of the reason code.")
    remedy: str = Field(description='What to do about the rejects; "" if nothing.')
    count: int = Field(examples=[84], description="Number of rejects with this reason in the period.")
    share: float = Field(examples=[0.42], description="Share of this reason in all rejects of the period, from 0 to 1.")
    last_at: datetime = Field(
        description="Start of the minute of the last reject; in periods of more than 25 hours, start of the hour."
    )


class RejectReasonList(BaseModel):
    since: datetime = Field(description="Start of the counted period: `since`, rounded down to the minute or hour.")
    until: datetime = Field(description="End of the counted period: `until`, rounded up to the minute or hour.")
    rejected: int = Field(examples=[200], description="Number of all rejects in the period.")
    items: list[RejectReason] = Field(description="Reasons of the rejects. The most frequent reason is first.")


@router.get("/decision-counts", operation_id="listDecisionCounts")
def list_decision_counts(
    access: Reads,
    interval: Annotated[Interval, Query(description="Length of the intervals of the counts.")] = "minute",
    since: Annotated[
        PastMoment | None,
        Query(description="Start of the counted period, rounded down to the interval. Default: the last 60 intervals."),
    ] = None,
    until: _Until = None,
) -> DecisionCountList:
    """List the numbers of permitted, quarantined and rejected requests by minute, hour or day.

    The list has an item for each interval of the period, also without decisions. A period has at most 1,500 intervals.
    Admit keeps the numbers by minute for two days, and the numbers by hour for 90 days or as long as the authentication
    log, whichever is shorter.

    The numbers describe what happened to the devices. In monitor mode, this can differ from the verdict. Rejects that
    Admit counted instead of logging each of them (`suppressed`) are included. Self-tests are not included.
    """
    with access.read() as session:
        found = counts.count_decisions(session, tenant_id=access.tenant_id, interval=interval, since=since, until=until)
    return DecisionCountList(items=[DecisionCount(**each._asdict()) for each in found])


@router.get("/reject-reasons", operation_id="listRejectReasons")
def list_reject_reasons(
    access: Reads,
    since: Annotated[
        PastMoment | None, Query(description="Start of the counted period. Default: one day before `until`.")
    ] = None,
    until: _Until = None,
) -> RejectReasonList:
    """List the reasons of rejects by frequency, with advice.

    The period is extended to whole minutes. If the period is longer than 25 hours or begins more than two days ago, the
    period is extended to whole hours. `listDecisionCounts` describes which rejects count, and how long Admit keeps the
    numbers.
    """
    with access.read() as session:
        found = counts.count_reject_reasons(session, tenant_id=access.tenant_id, since=since, until=until)
    return RejectReasonList(
        since=found.since,
        until=found.until,
        rejected=found.rejected,
        items=[
            RejectReason(
                reason=each.reason.code,
                title=each.reason.title,
                remedy=each.reason.advice,
                count=each.count,
                share=each.share,
                last_at=each.last_at,
            )
            for each in found.reasons
        ],
    )
