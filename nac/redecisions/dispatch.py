"""Queues requests of re-decision runs to NASes, at the rates of the tenant and its NASes.

A mark is a database row that records a change. Later, the mark starts a re-decision, or a second check of sessions.
"""

from collections import Counter
from collections.abc import Sequence
from datetime import timedelta

from sqlalchemy import bindparam, insert, text
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.orm import Session
from sqlalchemy.types import Text

from nac.kit.clock import epoch_seconds, utc_now
from nac.kit.db import force_ctid_scan
from nac.kit.errors import Conflict
from nac.kit.ids import TenantId
from nac.models import Redecision, RedecisionItem, RedecisionMark
from nac.redecisions import live_sessions, repository
from nac.redecisions.judgement import Judge
from nac.redecisions.settings import TenantRedecisionSettings
from nac.sessions.coa_requests.request_queue import REDECIDED_REASON, queue_session_requests

# Kinds of objects (nouns) whose changes concern only the sessions of a device, user or certificate. All other changes
# concern every session. Admit later checks the sessions a second time (SECOND_LOOK_NOUNS), because it learns of some
# sessions late.
CONCERNING_NOUNS = ("endpoint", "user", "certificate", "external-status")
SECOND_LOOK_NOUNS = {f"{noun}-again": noun for noun in CONCERNING_NOUNS}
# Nouns of marks that stand for sessions, not for changes. "late": all sessions whose id is higher than the mark's key.
# "session": one session with an open request that may fail.
LATE_SESSIONS, BUSY_SESSION = "late", "session"
# Noun of changes that arrived while a run checked all sessions, before a user stopped the run.
CHANGED_MEANWHILE = "meanwhile"
# Seconds after a change until Admit knows the sessions of all logins before the change.
LATE_SECONDS = 60

# Skips changes that the cell has not applied. Skips late checks until the cell's journal is stored up to their time.
_DUE_MARKS = text(
    """
WITH cell AS MATERIALIZED (
    SELECT c.replica_position::pg_snapshot AS position, c.shipped_until
    FROM slots s JOIN cells c ON c.id = s.cell_id WHERE s.tenant_id = :tenant
)
SELECT m.ctid::text FROM redecision_marks m LEFT JOIN cell ON true
WHERE m.tenant_id = :tenant AND m.due_at <= now()
    AND (m.xact IS NULL OR pg_visible_in_snapshot(m.xact, cell.position))
    AND (m.noun <> ALL (:late) OR cell.shipped_until IS NULL OR cell.shipped_until >= m.due_at)
ORDER BY m.due_at LIMIT :limit
"""
).bindparams(bindparam("late", type_=ARRAY(Text())))
_TAKE_MARKS = text("DELETE FROM redecision_marks WHERE ctid = ANY (CAST(:places AS tid[])) RETURNING noun, key")

_WAITING = text(
    "SELECT m.key FROM redecision_marks m WHERE m.tenant_id = :tenant AND m.noun = :noun AND m.key = ANY (:keys)"
).bindparams(bindparam("keys", type_=ARRAY(Text())))


def take_pending_changes(session: Session, tenant_id: TenantId, limit: int) -> Sequence[tuple[str, str]]:
    """Delete due marks whose changes the cell has applied.

    Returns the kind of object (noun) and the key of each deleted mark.
    """
    parameters = {"tenant": tenant_id, "limit": limit, "late": [LATE_SESSIONS, *SECOND_LOOK_NOUNS]}
    places = session.scalars(_DUE_MARKS, parameters).all()
    if not places:
        return []
    with force_ctid_scan(session):
        return [(row[0], row[1]) for row in session.execute(_TAKE_MARKS, {"places": places})]


def add_pending_changes(
    session: Session, tenant_id: TenantId, marks: Sequence[tuple[str, str]], *, seconds: int
) -> None:
    """Record changes: pairs of a kind of object (noun) and a key. Admit processes the changes after `seconds`."""
    due_at = utc_now() + timedelta(seconds=seconds)
    rows = [{"tenant_id": tenant_id, "noun": noun, "key": key, "due_at": due_at} for noun, key in marks]
    if rows:
        session.execute(insert(RedecisionMark), rows)


def schedule_second_look(session: Session, tenant_id: TenantId, rows: Sequence[int]) -> None:
    """Schedule another check of these sessions, for the time when their pending requests to NASes have ended.

    If a session already waits for a check, schedules no second check.
    """
    if not rows:
        return
    keys = [str(row) for row in rows]
    waiting = set(session.scalars(_WAITING, {"tenant": tenant_id, "noun": BUSY_SESSION, "keys": keys}))
    add_pending_changes(
        session, tenant_id, [(BUSY_SESSION, key) for key in keys if key not in waiting], seconds=LATE_SECONDS
    )


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
    schedule_second_look(session, run.tenant_id, [each.live.id for each in judgements if each.is_asked])
    still = {each.live.id: each.action for each in judgements}
    for item in items:
        item.state = "asked" if still.get(item.session_row) == item.action else "settled"
    for kind in ("disconnect", "reauthenticate"):
        rows = [item.session_row for item in items if item.state == "asked" and item.action == kind]
        if not rows:
            continue
        try:
            queue_session_requests(
                session,
                tenant_id=run.tenant_id,
                rows=rows,
                kind=kind,
                reason=REDECIDED_REASON,
                asked_by=f"re-decision {run.id}",
                redecision=run.id,
                after=repository.unfollowed_change(session, run.tenant_id),
            )
        except Conflict:
            # The queue is full of requests of users. Try again in a later turn.
            for item in items:
                item.state = "found" if item.session_row in rows else item.state
    session.flush()
