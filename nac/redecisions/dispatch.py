"""Queues requests of re-decision runs to NASes, at the rates of the tenant and its NASes."""

from collections import Counter
from collections.abc import Sequence
from datetime import timedelta

from sqlalchemy.orm import Session

from nac.kit.clock import epoch_seconds, utc_now
from nac.kit.errors import Conflict
from nac.kit.ids import TenantId
from nac.models import Redecision, RedecisionItem
from nac.redecisions import live_sessions, repository
from nac.redecisions.judgement import Judge
from nac.redecisions.pending_changes import schedule_second_look
from nac.redecisions.settings import TenantRedecisionSettings
from nac.sessions.coa_requests.request_queue import REDECIDED_REASON, queue_session_requests

# Limit of open requests per NAS, about one second of work. So a silent NAS delays no other NAS.
MAX_AT_NAS = 10
# Maximum number of runs in one call of `queue_requests`. The runs that wait longest come first.
MAX_RUNS = 50
# Limit of a tenant's open requests, as seconds at the tenant's rate. So the agent soon sends the requests of users.
_MAX_WAITING_SECONDS = 5
# A late worker sends the requests of at most this many seconds at once.
_CATCH_UP_SECONDS = 2.0


def queue_requests(session: Session, *, tenant_id: TenantId, settings: TenantRedecisionSettings) -> None:
    """Queue some requests of each sending run, so that large runs or silent NASes do not block other runs."""
    runs = repository.lock_sending(session, tenant_id, MAX_RUNS)
    if not runs:
        return
    waiting = Counter(repository.count_waiting_by_nas(session, tenant_id))
    allowed, rest = _compute_allowance(session, tenant_id, settings)
    room = min(allowed, _MAX_WAITING_SECONDS * settings.per_second - waiting.total())
    for others, run in zip(reversed(range(len(runs))), runs, strict=True):
        if room > 0:
            chosen = _choose_items(session, run, waiting, -(-room // (others + 1)))
            _queue_items(session, run, chosen)
            room -= len(chosen)
        if allowed > 0:
            run.fed_at = utc_now() - rest
        if not repository.has_found_items(session, run):
            run.state, run.ended_at = "done", utc_now()
    session.flush()


def _compute_allowance(
    session: Session, tenant_id: TenantId, settings: TenantRedecisionSettings
) -> tuple[int, timedelta]:
    """Return the number of requests that the rate allows now.

    Also return the part of the elapsed time that these requests do not use up.
    """
    last = repository.last_queued_at(session, tenant_id)
    seconds = 1.0 if last is None else max(0.0, min((utc_now() - last).total_seconds(), _CATCH_UP_SECONDS))
    allowed = int(settings.per_second * seconds)
    return allowed, timedelta(seconds=seconds - allowed / settings.per_second)


def _choose_items(session: Session, run: Redecision, waiting: Counter[str], room: int) -> Sequence[RedecisionItem]:
    """Return up to `room` items whose NASes can take more requests.

    Adds the chosen items to `waiting` (the number of waiting requests by NAS).
    """
    busy = [nas for nas, count in waiting.items() if count >= MAX_AT_NAS]
    chosen: list[RedecisionItem] = []
    for item in repository.list_found_items(session, run, busy=busy, limit=4 * room):
        if len(chosen) < room and waiting[item.nas_key] < MAX_AT_NAS:
            waiting[item.nas_key] += 1
            chosen.append(item)
    return chosen


def _queue_items(session: Session, run: Redecision, items: Sequence[RedecisionItem]) -> None:
    """Decide again about the sessions, and queue requests for items whose action has not changed.

    All other items need no request and end as "settled".
    """
    live = live_sessions.read_rows(session, run.tenant_id, [item.session_row for item in items])
    judgements = Judge(session, run.tenant_id).judge(live, at=epoch_seconds())
    schedule_second_look(session, run.tenant_id, [each.live.id for each in judgements if each.is_requested])
    still = {each.live.id: each.action for each in judgements}
    for item in items:
        item.state = "requested" if still.get(item.session_row) == item.action else "settled"
    for kind in ("disconnect", "reauthenticate"):
        rows = [item.session_row for item in items if item.state == "requested" and item.action == kind]
        if not rows:
            continue
        try:
            queue_session_requests(
                session,
                tenant_id=run.tenant_id,
                rows=rows,
                kind=kind,
                reason=REDECIDED_REASON,
                requested_by=f"re-decision {run.id}",
                redecision=run.id,
                after=repository.unfollowed_change(session, run.tenant_id),
            )
        except Conflict:
            # The queue is full of requests of users. Try again in a later turn.
            for item in items:
                item.state = "found" if item.session_row in rows else item.state
    session.flush()
