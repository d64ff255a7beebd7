"""The worker's part: what changed becomes runs, runs look at sessions a page at a time, and what differs is sent.

Each call is one bounded transaction of one tenant. A worker that is killed leaves things as they were before it, and
whoever comes next goes on from there.
"""

from collections import Counter
from collections.abc import Sequence
from datetime import timedelta

from sqlalchemy.orm import Session

from nac.clock import epoch_seconds, utc_now
from nac.coa_requests.queueing import withdraw_outdated
from nac.ids import TenantId
from nac.models import Redecision
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
from nac.redecisions.run_results import fold_items
from nac.redecisions.settings import TenantRedecisionSettings, get_settings

# Changes of one turn.
MAX_CHANGES = 1_000
# Which session was found is of no use for long, and a run may have found millions.
ITEM_RETENTION = timedelta(days=2)
MAX_FOLDED = 1_000
_NARROW_NOUNS = frozenset((*CONCERNING_NOUNS, *SECOND_LOOK_NOUNS, LATE_SESSIONS, BUSY_SESSION))
_CAUSE_WORDS = {
    "time": "time goes by",
    "silence": "the worker was away for long",
    LATE_SESSIONS: "sessions that became known late",
    BUSY_SESSION: "sessions that were being asked about",
    CHANGED_MEANWHILE: "what changed while one was stopped",
    "external-status": "certificate",
}


def advance_tenant(session: Session, *, tenant_id: TenantId) -> bool:
    """One turn of the tenant; whether there is more to do at once. False where another worker is at it."""
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
    session: Session, *, tenant_id: TenantId, cause: str, scope: str = "all", asked_by: str = "", sends: bool = False
) -> Redecision:
    """A run that the worker goes on with within a second."""
    run = Redecision(tenant_id=tenant_id, cause=cause, scope=scope, asked_by=asked_by, sends=sends)
    session.add(run)
    session.flush()
    if scope == "all":
        newest = live_sessions.newest_session_row(session, tenant_id)
        add_pending_changes(session, tenant_id, [(LATE_SESSIONS, str(newest))], seconds=LATE_SECONDS)
    return run


def _process_changes(session: Session, tenant_id: TenantId, settings: TenantRedecisionSettings) -> bool:
    """Works changes off; whether more of them wait. Those of several turns are one run."""
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
    """Returns the run over some sessions, where there is one."""
    nouns = {noun for noun, _ in marks}
    if "policy" in nouns:
        # Whoever puts a policy in force wants it, whatever was stopped before.
        repository.release_stopped(session, tenant_id)
    if nouns - _NARROW_NOUNS:
        _schedule_full_run(session, tenant_id, _describe_cause(marks))
    again = [(f"{noun}-again", key) for noun, key in marks if noun in CONCERNING_NOUNS]
    add_pending_changes(session, tenant_id, again, seconds=LATE_SECONDS)
    cause = _describe_cause([(SECOND_LOOK_NOUNS.get(noun, noun), key) for noun, key in marks])
    # Those of a run that has begun already may be behind it.
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
        # To begin anew each time would never come to an end.
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
    """`seen` are looked at for the second time after the same change: what was found of them then is not found anew
    where a run is still to send it."""
    if not rows and not seen:
        return run
    live = live_sessions.read_rows(session, tenant_id, sorted(rows | seen))
    judgements = Judge(session, tenant_id).judge(live, at=epoch_seconds())
    _reconcile_requests(session, tenant_id, judgements)
    told = repository.find_alike_to_send(session, tenant_id, [each for each in judgements if each.live.id in seen])
    judgements = [each for each in judgements if each.live.id not in told]
    completion.settle_rejudged(session, tenant_id, judgements)
    judgements, held = _leave_out_stopped(session, tenant_id, judgements)
    # Most changes concern nobody who is on the network: not worth a run.
    if run is None and any(each.action for each in judgements):
        run = create_run(session, tenant_id=tenant_id, cause=cause, scope="some")
    if run is not None:
        _store_judgements(session, run, judgements, held)
    return run


def _leave_out_stopped(
    session: Session, tenant_id: TenantId, judgements: Sequence[Judgement]
) -> tuple[list[Judgement], int]:
    """Without those of which a person has stopped what is found now, and how many these are."""
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
        create_run(session, tenant_id=run.tenant_id, cause=f"{run.cause}, and what changed meanwhile")
    return again


def _reconcile_requests(session: Session, tenant_id: TenantId, judgements: Sequence[Judgement]) -> None:
    """With what is asked already: what a later change has made wrong is not sent, and what is under way is looked at
    once more when it is over."""
    decided = [each for each in judgements if not each.undecidable and not each.is_asked]
    wanted = {each.live.id: str(each.action) for each in decided}
    withdraw_outdated(session, tenant_id=tenant_id, wanted=wanted)
    schedule_second_look(session, tenant_id, [each.live.id for each in judgements if each.is_asked])


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
    """Forget runs that began so long ago and are over, and of others that ended some time ago all but the counts;
    returns how many are forgotten."""
    for run in repository.list_ended_with_items(session, tenant_id, utc_now() - ITEM_RETENTION, MAX_FOLDED):
        fold_items(session, run)
    return repository.prune(session, tenant_id, utc_now() - timedelta(days=days))
