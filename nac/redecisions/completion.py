"""Completion and cancellation of re-decision runs.

After a run has checked all its sessions, the run sends requests, waits for approval, or is done. An item of a run is a
session whose NAS must get a request.
"""

import logging
from collections.abc import Sequence
from datetime import timedelta

from sqlalchemy.orm import Session

from nac.kit.clock import utc_now
from nac.kit.ids import TenantId
from nac.models import Redecision, Tenant
from nac.redecisions import live_sessions, repository
from nac.redecisions.judgement import Judgement
from nac.redecisions.pending_changes import CHANGED_MEANWHILE, add_pending_changes
from nac.redecisions.settings import MIN_CEILING, TenantRedecisionSettings
from nac.sessions.coa_requests.request_queue import withdraw_redecision

_log = logging.getLogger(__name__)

# Automatic disconnects within this time count together, so that many small changes need approval, too.
_WINDOW = timedelta(hours=1)


def finish_deciding(session: Session, run: Redecision, settings: TenantRedecisionSettings) -> None:
    if run.scope == "all":
        _supersede_older(session, run)
    counted = repository.count_items(session, run)
    run.disconnects, run.reauthentications = counted.get("disconnect", 0), counted.get("reauthenticate", 0)
    run.may_disconnect = repository.count_disconnecting(session, run)
    if run.held_back:
        skipped = (
            f"Skipped sessions: {run.held_back}. These sessions have the same differences as a stopped re-decision."
        )
        run.detail = f"{skipped} {run.detail}".strip()
    if not counted:
        run.state, run.ended_at = "done", utc_now()
    elif over := _describe_over_ceiling(session, run, settings):
        run.state, run.waits_for, run.detail = "waiting", "ceiling", f"{over} {run.detail}".strip()
        slug = session.get_one(Tenant, run.tenant_id).slug
        _log.warning(
            "tenant %s: re-decision %d waits: %s To continue or end it: approveRedecision, cancelRedecision",
            *(slug, run.id, over),
        )
    elif settings.mode == "preview" and not run.sends:
        run.state, run.waits_for = "waiting", "preview"
        run.detail = f"The tenant's mode is preview: approve the re-decision to send its requests. {run.detail}".strip()
    else:
        run.state = "sending"
    session.flush()


def count_recent_disconnects(session: Session, tenant_id: TenantId, *, but: int = 0) -> int:
    """Count the automatic disconnects of the last hour, except disconnects by the run `but`.

    The ceiling limits these disconnects together with the disconnects of a new run.
    """
    return repository.recent_disconnects(session, tenant_id, utc_now() - _WINDOW, but=but)


def _describe_over_ceiling(session: Session, run: Redecision, settings: TenantRedecisionSettings) -> str:
    """Return a sentence if the run exceeds the ceiling of automatic disconnects, otherwise ""."""
    recently = count_recent_disconnects(session, run.tenant_id, but=run.id)
    total = run.may_disconnect + recently
    if not run.may_disconnect or total <= MIN_CEILING:
        return ""
    live = run.sessions if run.scope == "all" else live_sessions.count_live(session, run.tenant_id)
    most = settings.compute_ceiling(live)
    if total <= most:
        return ""
    also = f" Other re-decisions disconnected {recently} sessions in the last hour." if recently else ""
    found = f"The re-decision may disconnect {run.may_disconnect} of {live} sessions.{also}"
    return f"{found} More than {most} sessions need approval."


def _supersede_older(session: Session, run: Redecision) -> None:
    """End older runs, because this run checked all sessions again.

    An older run that a user approved still sends the requests for sessions that have the same action and the same new
    decision in this run. Admit withdraws the other unsent requests of the older run.
    """
    for older in repository.lock_older(session, run):
        if older.state == "sending" and older.sends and (left := repository.leave_alike_to_older(session, run, older)):
            run.detail = f"Approved re-decision {older.id} still sends {left} requests. {run.detail}".strip()
        else:
            _end_run(session, older, "superseded", f"Re-decision {run.id} checked all sessions later.")


def settle_rejudged(session: Session, tenant_id: TenantId, judged: Sequence[Judgement]) -> None:
    """In waiting runs, set each item to "settled" if `judged` has a newer decision about its session."""
    rows = [each.live.id for each in judged if not each.undecidable and not each.is_requested]
    if rows:
        for run in repository.lock_waiting(session, tenant_id):
            if repository.settle_items(session, run, rows):
                _end_if_empty(session, run)


def settle_waiting(session: Session, *, tenant_id: TenantId) -> bool:
    """End waiting runs whose sessions have all ended.

    Returns True if not all sessions were checked, so that a later call must continue.
    """
    if not repository.try_lock_tenant(session, tenant_id):
        return False
    more = False
    for run in repository.lock_waiting(session, tenant_id):
        items = repository.list_found_items(session, run, busy=(), limit=live_sessions.PAGE_ROWS)
        rows = {item.session_row for item in items}
        live = {each.id for each in live_sessions.read_rows(session, tenant_id, sorted(rows))}
        repository.settle_items(session, run, rows - live)
        # One live session is enough for the run to wait. A later call checks the remaining sessions.
        more |= not live and len(rows) == live_sessions.PAGE_ROWS
        _end_if_empty(session, run)
    return more


def _end_if_empty(session: Session, run: Redecision) -> None:
    if not repository.has_found_items(session, run):
        _end_run(
            session,
            run,
            "superseded",
            f"All sessions of the re-decision have ended or were checked later. {run.detail}".strip(),
        )


def stop_run(session: Session, run: Redecision, detail: str) -> int:
    """Stop a run. Returns the number of requests that were withdrawn."""
    if run.state == "deciding" and run.again:
        # Another run must process the changes that arrived during this run.
        add_pending_changes(session, run.tenant_id, [(CHANGED_MEANWHILE, "")], seconds=0)
    _end_run(session, run, "stopped", detail)
    run.holds = True
    return withdraw_redecision(session, tenant_id=run.tenant_id, redecision=run.id, detail=detail)


def _end_run(session: Session, run: Redecision, state: str, detail: str) -> None:
    repository.withdraw_items(session, run)
    run.state, run.detail, run.ended_at = state, detail, utc_now()
    session.flush()
