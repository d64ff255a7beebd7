"""Service for re-decisions: preview, start, approve, stop and list."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from sqlalchemy.orm import Session

from nac.core.audit import service as audit
from nac.kit.advice import Advice, NextStep
from nac.kit.clock import epoch_seconds
from nac.kit.db.sort_orders import PageSpan
from nac.kit.errors import Conflict, NotFound
from nac.kit.ids import TenantId
from nac.models import Redecision
from nac.models.redecision import RedecisionState
from nac.policies import service as policies
from nac.redecisions import completion, live_sessions, repository, runner
from nac.redecisions.judgement import Judge
from nac.redecisions.live_sessions import PAGE_ROWS
from nac.redecisions.repository import ORDERS as ORDERS
from nac.redecisions.runner import results_row
from nac.redecisions.settings import TenantRedecisionSettings, get_settings, update_settings
from nac.redecisions.tallies import RedecisionTallies

__all__ = [
    "RedecisionNotFound",
    "RedecisionPreview",
    "approve_redecision",
    "cancel_redecision",
    "get_settings",
    "list_redecisions",
    "preview_redecision",
    "redecision_row",
    "require_redecision",
    "start_redecision",
    "summary_row",
    "update_settings",
]


class RedecisionNotFound(NotFound):
    """The re-decision does not exist."""


@dataclass(frozen=True, slots=True)
class RedecisionPreview:
    tallies: RedecisionTallies
    # Whether the disconnects in `tallies` and the automatic disconnects of the last hour together exceed the ceiling.
    over_ceiling: bool
    settings: TenantRedecisionSettings


def preview_redecision(
    session: Session, *, tenant_id: TenantId, drafts: Mapping[UUID, object] | None = None
) -> RedecisionPreview:
    """Count the requests that `drafts` (documents by policy id) would cause.

    Without `drafts`, counts for the published policies. Reads every live session page by page and writes nothing.
    Raises InvalidPolicy.
    """
    for document in (drafts or {}).values():
        policies.check_document(session, tenant_id=tenant_id, document=document, refuse_unreachable=False)
    tallies = RedecisionTallies()
    judge = Judge(session, tenant_id, drafts)
    cursor = None
    while page := live_sessions.read_page(session, tenant_id, cursor):
        tallies.add_judgements(judge.judge(page, at=epoch_seconds()))
        cursor = page[-1].started_at, page[-1].id
        if len(page) < PAGE_ROWS:
            break
    settings = get_settings(session, tenant_id=tenant_id)
    cut = tallies.may_disconnect
    total = cut + completion.count_recent_disconnects(session, tenant_id)
    return RedecisionPreview(tallies, cut > 0 and total > settings.compute_ceiling(tallies.sessions), settings)


def start_redecision(session: Session, *, actor: str, tenant_id: TenantId) -> Redecision:
    """Start a run that checks every live session and sends its requests, in any re-decision mode of the tenant.

    If the run would disconnect more sessions than the ceiling permits, a user must approve the run. Raises Conflict if
    a run is checking all sessions.
    """
    at_work = repository.lock_oldest(session, tenant_id, "deciding", scope="all")
    if at_work is not None:
        raise Conflict(
            f"Re-decision {at_work.id} is already checking all sessions.",
            place="redecision",
            remedy=Advice(
                "See the progress of the re-decision.", NextStep("getRedecision", {"redecision": str(at_work.id)})
            ),
        )
    repository.release_stopped(session, tenant_id)
    run = runner.create_run(session, tenant_id=tenant_id, cause="requested", requested_by=actor, sends=True)
    _audit(session, actor, run, "start", {})
    return run


def approve_redecision(session: Session, *, actor: str, tenant_id: TenantId, number: int) -> Redecision:
    """Approve a waiting run, so that the worker sends its requests.

    Raises RedecisionNotFound, or Conflict if the run does not wait.
    """
    run = require_redecision(session, tenant_id=tenant_id, number=number, lock=True)
    if run.state != "waiting":
        raise Conflict(
            f"Re-decision {number} does not wait for approval. The state of the re-decision is {run.state}.",
            place="redecision",
        )
    before = {"state": run.state, "waits_for": run.waits_for}
    run.state, run.waits_for, run.sends, run.detail = "sending", "", True, f"Approved by {actor}. {run.detail}"
    session.flush()
    _audit(session, actor, run, "approve", before)
    return run


def cancel_redecision(session: Session, *, actor: str, tenant_id: TenantId, number: int) -> int:
    """Cancel a run. Returns the number of withdrawn requests.

    Admit does not undo completed requests. Raises RedecisionNotFound, or Conflict if the run has ended.
    """
    run = require_redecision(session, tenant_id=tenant_id, number=number, lock=True)
    waits = repository.count_requests(session, run)
    if run.state not in repository.OPEN_STATES and not (waits.get("queued") or waits.get("sending")):
        raise Conflict(
            f"Re-decision {number} has ended. The state of the re-decision is {run.state}.", place="redecision"
        )
    before = {"state": run.state}
    withdrawn = completion.stop_run(session, run, f"Stopped by {actor}.")
    _audit(session, actor, run, "cancel", before, withdrawn=withdrawn)
    return withdrawn


def require_redecision(session: Session, *, tenant_id: TenantId, number: int, lock: bool = False) -> Redecision:
    """Return the re-decision with this number. Raises RedecisionNotFound."""
    run = repository.get(session, tenant_id, number, lock=lock)
    if run is None:
        raise RedecisionNotFound(
            f"Unknown re-decision {number}.", place="redecision", remedy=Advice("List re-decisions", "listRedecisions")
        )
    return run


def list_redecisions(
    session: Session, *, tenant_id: TenantId, span: PageSpan | None = None, states: Collection[RedecisionState] = ()
) -> Sequence[Redecision]:
    """List runs: the page `span`, or by default the newest runs."""
    return repository.list_page(session, tenant_id, span=span or ORDERS.first(), states=states)


def summary_row(run: Redecision) -> dict[str, Any]:
    return {
        "id": run.id,
        "began": run.created_at.isoformat(),
        "cause": run.cause,
        "scope": run.scope,
        "state": run.state,
        "waits_for": run.waits_for,
        "sessions": run.sessions,
        "unchanged": run.unchanged,
        "disconnects": run.disconnects,
        "reauthentications": run.reauthentications,
        "may_disconnect": run.may_disconnect,
        "held_back": run.held_back,
        "cannot_be_redecided": sum(run.undecidable.values()),
    }


def redecision_row(session: Session, run: Redecision) -> dict[str, Any]:
    """Return the run with its differences and the progress of its requests, for JSON."""
    return {
        **summary_row(run),
        **results_row(session, run),
        "cannot_be_redecided": dict(run.undecidable),
        "requested_by": run.requested_by,
        "detail": run.detail,
        "ended": run.ended_at and run.ended_at.isoformat(),
        # Number of requests to NASes by state.
        "requests": repository.count_requests(session, run),
    }


def _audit(
    session: Session, actor: str, run: Redecision, verb: str, before: Mapping[str, object], **more: object
) -> None:
    after = {"state": run.state, "disconnects": run.disconnects, "reauthentications": run.reauthentications, **more}
    audit.append(
        session,
        actor=actor,
        action=f"redecision.{verb}",
        target=str(run.id),
        tenant_id=run.tenant_id,
        before=before or None,
        after=after,
    )
