"""What becomes of a run once every session was looked at: it is sent, waits for a person, or there is nothing to do."""

import logging
from collections.abc import Sequence
from datetime import timedelta

from sqlalchemy.orm import Session

from nac.clock import utc_now
from nac.coa_requests.queueing import withdraw_redecision
from nac.ids import TenantId
from nac.models import Redecision, Tenant
from nac.redecisions import live_sessions, repository
from nac.redecisions.judgement import Judgement
from nac.redecisions.pending_changes import CHANGED_MEANWHILE, add_pending_changes
from nac.redecisions.settings import MIN_CEILING, TenantRedecisionSettings

_log = logging.getLogger(__name__)

# What was disconnected without anybody's word counts for so long: many small changes are a large one.
_WINDOW = timedelta(hours=1)


def finish_deciding(session: Session, run: Redecision, settings: TenantRedecisionSettings) -> None:
    if run.scope == "all":
        _supersede_older(session, run)
    counted = repository.count_items(session, run)
    run.disconnects, run.reauthentications = counted.get("disconnect", 0), counted.get("reauthenticate", 0)
    run.may_disconnect = repository.count_disconnecting(session, run)
    if run.held_back:
        run.detail = (
            f"{run.held_back} more differ as in a re-decision that was stopped, and are left. {run.detail}".strip()
        )
    if not counted:
        run.state, run.ended_at = "done", utc_now()
    elif over := _describe_over_ceiling(session, run, settings):
        run.state, run.waits_for, run.detail = "waiting", "ceiling", f"{over} {run.detail}".strip()
        slug = session.get_one(Tenant, run.tenant_id).slug
        _log.warning(
            "tenant %s: re-decision %d waits: %s ./admit redecide show -t %s %d", slug, run.id, over, slug, run.id
        )
    elif settings.mode == "preview" and not run.sends:
        run.state, run.waits_for = "waiting", "preview"
        run.detail = f"The tenant's mode is preview: nothing is sent unless somebody approves it. {run.detail}".strip()
    else:
        run.state = "sending"
    session.flush()


def count_recent_disconnects(session: Session, tenant_id: TenantId, *, but: int = 0) -> int:
    """What counts towards the ceiling of the next run; of runs other than `but`."""
    return repository.recent_disconnects(session, tenant_id, utc_now() - _WINDOW, but=but)


def _describe_over_ceiling(session: Session, run: Redecision, settings: TenantRedecisionSettings) -> str:
    """A sentence, or ""."""
    recently = count_recent_disconnects(session, run.tenant_id, but=run.id)
    total = run.may_disconnect + recently
    if not run.may_disconnect or total <= MIN_CEILING:
        return ""
    live = run.sessions if run.scope == "all" else live_sessions.count_live(session, run.tenant_id)
    most = settings.compute_ceiling(live)
    if total <= most:
        return ""
    also = f" ({recently} were within the last hour)" if recently else ""
    return f"It may disconnect {run.may_disconnect} of {live} sessions{also}; up to {most} go without approval."


def _supersede_older(session: Session, run: Redecision) -> None:
    """What a later run has looked at as well is sent by that one, but what a person has approved already."""
    for older in repository.lock_older(session, run):
        if older.state == "sending" and older.sends and (left := repository.leave_alike_to_older(session, run, older)):
            run.detail = f"{left} more are sent by re-decision {older.id}, which was approved. {run.detail}".strip()
        else:
            _end_run(session, older, "superseded", f"Re-decision {run.id} looked at all sessions later.")


def settle_rejudged(session: Session, tenant_id: TenantId, judged: Sequence[Judgement]) -> None:
    """What runs that wait for a person found of sessions that were decided anew since is not theirs any more."""
    rows = [each.live.id for each in judged if not each.undecidable and not each.is_asked]
    if rows:
        for run in repository.lock_waiting(session, tenant_id):
            if repository.settle_items(session, run, rows):
                _end_if_empty(session, run)


def settle_waiting(session: Session, *, tenant_id: TenantId) -> bool:
    """Runs that wait for a person about sessions that are all over wait no more; whether there is more to look at."""
    if not repository.try_lock_tenant(session, tenant_id):
        return False
    more = False
    for run in repository.lock_waiting(session, tenant_id):
        items = repository.list_found_items(session, run, busy=(), limit=live_sessions.PAGE_ROWS)
        rows = {item.session_row for item in items}
        live = {each.id for each in live_sessions.read_rows(session, tenant_id, sorted(rows))}
        repository.settle_items(session, run, rows - live)
        # One that goes on is enough: what else is over is seen when its turn comes.
        more |= not live and len(rows) == live_sessions.PAGE_ROWS
        _end_if_empty(session, run)
    return more


def _end_if_empty(session: Session, run: Redecision) -> None:
    if not repository.has_found_items(session, run):
        _end_run(session, run, "superseded", f"Its sessions are over, or were looked at later. {run.detail}".strip())


def stop_run(session: Session, run: Redecision, detail: str) -> int:
    """Returns how many requests that had been queued are not sent any more."""
    if run.state == "deciding" and run.again:
        # What changed meanwhile is not what was stopped.
        add_pending_changes(session, run.tenant_id, [(CHANGED_MEANWHILE, "")], seconds=0)
    _end_run(session, run, "stopped", detail)
    run.holds = True
    return withdraw_redecision(session, tenant_id=run.tenant_id, redecision=run.id, detail=detail)


def _end_run(session: Session, run: Redecision, state: str, detail: str) -> None:
    repository.withdraw_items(session, run)
    run.state, run.detail, run.ended_at = state, detail, utc_now()
    session.flush()
