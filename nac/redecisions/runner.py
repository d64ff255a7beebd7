"""Work on re-decisions: changes start runs, runs check sessions page by page, and the worker queues requests to NASes.

Each call is one bounded transaction of one tenant, so a killed worker leaves a consistent state.
"""

from collections import Counter
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from sqlalchemy import delete
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from nac.kit.clock import epoch_seconds, utc_now
from nac.kit.ids import TenantId
from nac.models import Redecision, RedecisionFailure
from nac.redecisions import completion, dispatch, live_sessions, repository
from nac.redecisions.judgement import Judge, Judgement
from nac.redecisions.live_sessions import PAGE_ROWS
from nac.redecisions.pending_changes import (
    BUSY_SESSION,
    CHANGED_MEANWHILE,
    CONCERNING_NOUNS,
    LATE_SECONDS,
    LATE_SESSIONS,
    SECOND_LOOK_NOUNS,
    add_pending_changes,
    schedule_second_look,
    take_pending_changes,
)
from nac.redecisions.settings import TenantRedecisionSettings, get_settings
from nac.redecisions.tallies import RedecisionTallies
from nac.sessions.coa_requests.request_queue import withdraw_outdated

# Limit of changes per turn.
MAX_CHANGES = 1_000
# Items of an ended run (up to millions) are deleted after this time.
ITEM_RETENTION = timedelta(days=2)
MAX_FOLDED = 1_000
_NARROW_NOUNS = frozenset((*CONCERNING_NOUNS, *SECOND_LOOK_NOUNS, LATE_SESSIONS, BUSY_SESSION))
_CAUSE_WORDS = {
    "time": "time",
    "silence": "the worker was down",
    LATE_SESSIONS: "late sessions",
    BUSY_SESSION: "sessions with open requests",
    CHANGED_MEANWHILE: "changes during a stopped run",
    "external-status": "certificate",
}
_MAX_DETAIL_CHARACTERS = 300


def advance_tenant(session: Session, *, tenant_id: TenantId) -> bool:
    """Do one limited part of the tenant's work. Returns whether work is left.

    Returns False if another worker has the lock.
    """
    if not repository.try_lock_tenant(session, tenant_id):
        return False
    repository.lock_open(session, tenant_id)
    settings = get_settings(session, tenant_id=tenant_id)
    more = _process_changes(session, tenant_id, settings)
    run = repository.lock_oldest(session, tenant_id, "deciding", scope="all")
    if run is not None:
        more |= _decide_page(session, run, settings)
    dispatch.queue_requests(session, tenant_id=tenant_id, settings=settings)
    session.flush()
    return more


def create_run(
    session: Session,
    *,
    tenant_id: TenantId,
    cause: str,
    scope: str = "all",
    requested_by: str = "",
    sends: bool = False,
) -> Redecision:
    """Start a run. The worker continues the run within a second."""
    run = Redecision(tenant_id=tenant_id, cause=cause, scope=scope, requested_by=requested_by, sends=sends)
    session.add(run)
    session.flush()
    if scope == "all":
        newest = live_sessions.newest_session_row(session, tenant_id)
        add_pending_changes(session, tenant_id, [(LATE_SESSIONS, str(newest))], seconds=LATE_SECONDS)
    return run


def _process_changes(session: Session, tenant_id: TenantId, settings: TenantRedecisionSettings) -> bool:
    """Process due changes. Returns whether due changes are left. If so, the next call continues the same run."""
    marks = take_pending_changes(session, tenant_id, MAX_CHANGES)
    run = repository.lock_oldest(session, tenant_id, "deciding", scope="some")
    if marks and settings.mode != "off":
        run = _apply_changes(session, tenant_id, marks, run)
    more = len(marks) == MAX_CHANGES
    if run is not None and not more:
        completion.finish_deciding(session, run, settings)
    return more


def _apply_changes(
    session: Session, tenant_id: TenantId, marks: Sequence[tuple[str, str]], run: Redecision | None
) -> Redecision | None:
    """Check the sessions that these changes concern. Returns the run that contains these sessions, or None."""
    nouns = {noun for noun, _ in marks}
    if "policy" in nouns:
        # After a publication, stopped runs no longer prevent requests about their sessions.
        repository.release_stopped(session, tenant_id)
    if nouns - _NARROW_NOUNS:
        _schedule_full_run(session, tenant_id, _describe_cause(marks))
    again = [(f"{noun}-again", key) for noun, key in marks if noun in CONCERNING_NOUNS]
    add_pending_changes(session, tenant_id, again, seconds=LATE_SECONDS)
    cause = _describe_cause([(SECOND_LOOK_NOUNS.get(noun, noun), key) for noun, key in marks])
    # A run over all sessions may already have passed these sessions, so check them now.
    rows = _find_concerned(session, tenant_id, [mark for mark in marks if mark[0] not in SECOND_LOOK_NOUNS])
    seen = (
        _find_concerned(
            session, tenant_id, [(SECOND_LOOK_NOUNS[noun], key) for noun, key in marks if noun in SECOND_LOOK_NOUNS]
        )
        - rows
    )
    if len(rows | seen) > PAGE_ROWS:
        _schedule_full_run(session, tenant_id, cause)
        return run
    return _judge_sessions(session, tenant_id, rows, seen, cause, run)


def _schedule_full_run(session: Session, tenant_id: TenantId, cause: str) -> None:
    at_work = repository.lock_oldest(session, tenant_id, "deciding", scope="all")
    if at_work is None:
        create_run(session, tenant_id=tenant_id, cause=cause)
    elif at_work.cursor_id is not None:
        # Do not restart the run: with frequent changes it would never end.
        at_work.again = True


def _find_concerned(session: Session, tenant_id: TenantId, marks: Sequence[tuple[str, str]]) -> set[int]:
    if not marks:
        return set()
    of = {noun: [key for each, key in marks if each == noun] for noun in _NARROW_NOUNS}
    serials = [key.rpartition(":")[2] for key in (*of["certificate"], *of["external-status"])]
    rows = set(
        live_sessions.find_concerned(
            session,
            tenant_id,
            macs=of["endpoint"],
            users=[name.lower() for name in of["user"]],
            serials=serials,
            limit=PAGE_ROWS + 1,
        )
    )
    rows.update(map(int, of[BUSY_SESSION]))
    for newest in of[LATE_SESSIONS]:
        later = live_sessions.list_later_rows(session, tenant_id, int(newest), limit=PAGE_ROWS)
        if len(later) == PAGE_ROWS:
            add_pending_changes(session, tenant_id, [(LATE_SESSIONS, str(later[-1]))], seconds=0)
        rows.update(later)
    return rows


def _judge_sessions(
    session: Session, tenant_id: TenantId, rows: set[int], seen: set[int], cause: str, run: Redecision | None
) -> Redecision | None:
    """Check some sessions again. Returns the run to which differences were added, or None.

    The sessions in `seen` are checked for the second time after the same change. If another run already has an unsent
    item about such a session with the same new decision, adds no second item.
    """
    if not rows and not seen:
        return run
    live = live_sessions.read_rows(session, tenant_id, sorted(rows | seen))
    judgements = Judge(session, tenant_id).judge(live, at=epoch_seconds())
    _reconcile_requests(session, tenant_id, judgements)
    to_come = repository.find_alike_to_send(session, tenant_id, [each for each in judgements if each.live.id in seen])
    judgements = [each for each in judgements if each.live.id not in to_come]
    completion.settle_rejudged(session, tenant_id, judgements)
    judgements, held = _leave_out_stopped(session, tenant_id, judgements)
    # Most changes concern no live session and need no run.
    if run is None and any(each.action for each in judgements):
        run = create_run(session, tenant_id=tenant_id, cause=cause, scope="some")
    if run is not None:
        _store_judgements(session, run, judgements, held)
    return run


def _leave_out_stopped(
    session: Session, tenant_id: TenantId, judgements: Sequence[Judgement]
) -> tuple[list[Judgement], int]:
    """Remove new decisions that are equal to decisions in runs that a user stopped.

    Returns the remaining decisions, and the number of removed decisions.
    """
    held = repository.find_held_back(session, tenant_id, judgements)
    return [each for each in judgements if each.live.id not in held], len(held)


def _decide_page(session: Session, run: Redecision, settings: TenantRedecisionSettings) -> bool:
    cursor = None
    if run.cursor_at is not None and run.cursor_id is not None:
        cursor = run.cursor_at, run.cursor_id
    page = live_sessions.read_page(session, run.tenant_id, cursor)
    if page:
        judgements = Judge(session, run.tenant_id).judge(page, at=epoch_seconds())
        _reconcile_requests(session, run.tenant_id, judgements)
        _store_judgements(session, run, *_leave_out_stopped(session, run.tenant_id, judgements))
        run.cursor_at, run.cursor_id = page[-1].started_at, page[-1].id
    if len(page) == PAGE_ROWS:
        return True
    again = run.again
    completion.finish_deciding(session, run, settings)
    if again:
        create_run(session, tenant_id=run.tenant_id, cause=f"{run.cause}, and changes during the run")
    return again


def _reconcile_requests(session: Session, tenant_id: TenantId, judgements: Sequence[Judgement]) -> None:
    """Withdraw requests that no longer match the new decision.

    Schedule another check of sessions that have open requests.
    """
    decided = [each for each in judgements if not each.undecidable and not each.is_requested]
    wanted = {each.live.id: str(each.action) for each in decided}
    withdraw_outdated(session, tenant_id=tenant_id, wanted=wanted)
    schedule_second_look(session, tenant_id, [each.live.id for each in judgements if each.is_requested])


def _store_judgements(session: Session, run: Redecision, judgements: Sequence[Judgement], held: int) -> None:
    repository.upsert_items(session, run, judgements)
    run.sessions += len(judgements) + held
    run.held_back += held
    run.unchanged += sum(not each.action and not each.undecidable for each in judgements)
    actions = Counter(each.action for each in judgements)
    run.disconnects += actions["disconnect"]
    run.reauthentications += actions["reauthenticate"]
    undecidable = Counter(run.undecidable)
    undecidable.update(each.undecidable for each in judgements if each.undecidable)
    run.undecidable = dict(undecidable)
    session.flush()


def _describe_cause(marks: Sequence[tuple[str, str]]) -> str:
    counted = Counter(_CAUSE_WORDS.get(noun, noun) for noun, _ in marks)
    return ", ".join(name if count == 1 else f"{name} ({count})" for name, count in counted.most_common())


def prune(session: Session, *, tenant_id: TenantId, days: int) -> int:
    """Delete old runs, and the items of recently ended runs. Returns the number of deleted runs."""
    for run in repository.list_ended_with_items(session, tenant_id, utc_now() - ITEM_RETENTION, MAX_FOLDED):
        fold_items(session, run)
    return repository.prune(session, tenant_id, utc_now() - timedelta(days=days))


def results_row(session: Session, run: Redecision) -> dict[str, Any]:
    """Return the number of sessions with differences by NAS, site, change and state, for JSON."""
    if run.found is not None:
        return dict(run.found)
    tallies = RedecisionTallies(undecidable=Counter(run.undecidable))
    for found in repository.iter_found_changes(session, run):
        tallies.add(found)
    # Number of sessions with differences by state: `found`, `requested`, `settled`, `withdrawn`.
    return {**tallies.row(), "items": repository.count_states(session, run)}


def fold_items(session: Session, run: Redecision) -> int:
    """Store the counts of an ended run, and delete its items (up to millions). Returns the number of deleted items."""
    run.found = results_row(session, run)
    session.flush()
    return repository.delete_items(session, run)


def record_failure(session: Session, *, tenant_id: TenantId, detail: str) -> None:
    """Count a failed re-decision of the tenant. After several failures, the cell raises an alarm."""
    message = detail[:_MAX_DETAIL_CHARACTERS]
    row = insert(RedecisionFailure).values(tenant_id=tenant_id, detail=message)
    times = RedecisionFailure.times + 1
    session.execute(row.on_conflict_do_update(index_elements=["tenant_id"], set_={"times": times, "detail": message}))


def clear_failure(session: Session, *, tenant_id: TenantId) -> None:
    """Delete the count of failures, because a re-decision of the tenant had no error."""
    session.execute(delete(RedecisionFailure).where(RedecisionFailure.tenant_id == tenant_id))
