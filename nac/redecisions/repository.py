from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    CursorResult,
    Text,
    Update,
    all_,
    and_,
    any_,
    bindparam,
    cast,
    delete,
    func,
    select,
    text,
    update,
)
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.dialects.postgresql import insert as insert_or_update
from sqlalchemy.orm import Session

from nac.kit.db.sort_orders import PageSpan, SortOrders
from nac.kit.ids import TenantId
from nac.models import CoaRequest, Redecision, RedecisionItem
from nac.policies.differences import ComparedOutcome
from nac.redecisions.judgement import Judgement
from nac.redecisions.tallies import CountedChange, OutcomeChange, SessionExample
from nac.sessions.coa_requests.request_queue import WAITING_STATES

OPEN_STATES = ("deciding", "waiting", "sending")
_AFTER_COLUMNS = ("after_verdict", "after_rule", "after_vlan", "after_monitored", "after_reason")
# Whether the other run has an equal item whose request is unsent or has no response yet. Each run may have a million
# items, but the planner of PostgreSQL assumes one item. So look up items by key, without a join.
_ALIKE = """
coalesce((
    SELECT true FROM redecision_items o
    WHERE o.tenant_id = :tenant AND o.redecision_id = :other AND o.session_row = i.session_row
        AND (o.action, o.after_verdict, o.after_rule, o.after_vlan, o.after_monitored, o.after_reason)
            = (i.action, i.after_verdict, i.after_rule, i.after_vlan, i.after_monitored, i.after_reason)
        AND (o.state = 'found' OR o.session_row = ANY (:waiting)) LIMIT 1
), false)
"""
_WITHDRAW_UNLIKE = """
UPDATE redecision_items i SET state = 'withdrawn'
WHERE i.tenant_id = :tenant AND i.redecision_id = :run AND i.state = 'found' AND NOT {alike}
"""
_LEAVE_ALIKE = "DELETE FROM redecision_items i WHERE i.tenant_id = :tenant AND i.redecision_id = :run AND {alike}"
_withdraw_unlike, _leave_alike = (
    text(statement.replace("{alike}", _ALIKE)).bindparams(bindparam("waiting", type_=ARRAY(BigInteger())))
    for statement in (_WITHDRAW_UNLIKE, _LEAVE_ALIKE)
)

ORDERS = SortOrders({"id": (Redecision.id,)}, default="-id")


def try_lock_tenant(session: Session, tenant_id: TenantId) -> bool:
    """Lock the tenant until the transaction ends. Returns False if another worker has the lock."""
    key = func.hashtext("redecisions"), func.hashtext(str(tenant_id))
    return bool(session.scalar(select(func.pg_try_advisory_xact_lock(*key))))


def get(session: Session, tenant_id: TenantId, number: int, *, lock: bool = False) -> Redecision | None:
    query = select(Redecision).where(Redecision.tenant_id == tenant_id, Redecision.id == number)
    if lock:
        query = query.with_for_update().execution_options(populate_existing=True)
    return session.scalar(query)


def lock_oldest(session: Session, tenant_id: TenantId, state: str, *, scope: str = "") -> Redecision | None:
    query = select(Redecision).where(Redecision.tenant_id == tenant_id, Redecision.state == state)
    if scope:
        query = query.where(Redecision.scope == scope)
    query = query.order_by(Redecision.id).limit(1).with_for_update()
    return session.scalar(query.execution_options(populate_existing=True))


def lock_open(session: Session, tenant_id: TenantId) -> None:
    """Lock all runs that users can stop.

    Call this function before you lock requests, because Admit locks in this order when a user stops a run.
    """
    query = select(Redecision.id).where(Redecision.tenant_id == tenant_id, Redecision.state.in_(OPEN_STATES))
    session.execute(query.order_by(Redecision.id).with_for_update())


def lock_sending(session: Session, tenant_id: TenantId, limit: int) -> Sequence[Redecision]:
    """Lock sending runs. The run that has waited longest comes first."""
    query = select(Redecision).where(Redecision.tenant_id == tenant_id, Redecision.state == "sending")
    query = query.order_by(Redecision.fed_at.nulls_first(), Redecision.id).limit(limit).with_for_update()
    return session.scalars(query.execution_options(populate_existing=True)).all()


def lock_older(session: Session, run: Redecision) -> Sequence[Redecision]:
    """Lock the runs that are older than `run` and have not ended."""
    query = select(Redecision).where(
        Redecision.tenant_id == run.tenant_id, Redecision.id < run.id, Redecision.state.in_(OPEN_STATES)
    )
    return session.scalars(
        query.order_by(Redecision.id).with_for_update().execution_options(populate_existing=True)
    ).all()


def list_page(
    session: Session, tenant_id: TenantId, *, span: PageSpan, states: Collection[str]
) -> Sequence[Redecision]:
    query = span.of(select(Redecision).where(Redecision.tenant_id == tenant_id))
    if states:
        query = query.where(Redecision.state.in_(states))
    return session.scalars(query.execution_options(populate_existing=True)).all()


def recent_disconnects(session: Session, tenant_id: TenantId, since: datetime, *, but: int = 0) -> int:
    """Count the disconnects that all runs except `but` sent automatically since `since`."""
    query = select(func.coalesce(func.sum(Redecision.may_disconnect), 0)).where(
        Redecision.tenant_id == tenant_id,
        Redecision.id != but,
        Redecision.created_at > since,
        Redecision.state.in_(("sending", "done")),
        Redecision.sends.is_(False),
    )
    return int(session.scalar(query) or 0)


def unfollowed_change(session: Session, tenant_id: TenantId) -> str | None:
    """Return the tenant's last transaction that its cell has not applied yet, or None. Needs the role admit_worker."""
    transaction = session.scalar(select(cast(func.unfollowed_change(tenant_id), Text)))
    return None if transaction is None else str(transaction)


def last_queued_at(session: Session, tenant_id: TenantId) -> datetime | None:
    return session.scalar(select(func.max(Redecision.fed_at)).where(Redecision.tenant_id == tenant_id))


def _items_of_run(run: Redecision) -> ColumnElement[bool]:
    return and_(RedecisionItem.tenant_id == run.tenant_id, RedecisionItem.redecision_id == run.id)


def upsert_items(session: Session, run: Redecision, judgements: Iterable[Judgement]) -> None:
    """Insert an item for each session that needs a request, or replace the run's item about the session."""
    rows = [_item_row(run, each) for each in judgements if each.action]
    if not rows:
        return
    statement = insert_or_update(RedecisionItem)
    changed = {
        name: statement.excluded[name] for name in rows[0] if name not in ("tenant_id", "redecision_id", "session_row")
    }
    statement = statement.on_conflict_do_update(
        index_elements=["tenant_id", "redecision_id", "session_row"], set_=changed
    )
    session.execute(statement, rows)


def _item_row(run: Redecision, judgement: Judgement) -> dict[str, Any]:
    live, before, after = judgement.live, judgement.before, judgement.after
    return {
        "redecision_id": run.id,
        "session_row": live.id,
        "tenant_id": run.tenant_id,
        "action": judgement.action,
        "may_disconnect": judgement.may_disconnect,
        "nas": judgement.nas,
        "nas_key": live.nas_key,
        "site": judgement.site,
        "mac": live.mac or None,
        "identity": live.identity,
        "before_verdict": before.verdict,
        "before_rule": before.rule_id,
        "before_vlan": before.vlan,
        "before_monitored": before.monitored,
        "after_verdict": after.verdict,
        "after_rule": after.rule_id,
        "after_vlan": after.vlan,
        "after_monitored": after.monitored,
        "after_reason": judgement.reason,
    }


def count_items(session: Session, run: Redecision) -> dict[str, int]:
    query = select(RedecisionItem.action, func.count()).where(_items_of_run(run))
    return {row[0]: row[1] for row in session.execute(query.group_by(RedecisionItem.action))}


def count_disconnecting(session: Session, run: Redecision) -> int:
    """Count the items of a run whose requests may disconnect a device."""
    query = select(func.count()).select_from(RedecisionItem).where(_items_of_run(run), RedecisionItem.may_disconnect)
    return session.scalar(query) or 0


def leave_alike_to_older(session: Session, run: Redecision, older: Redecision) -> int:
    """Delete each item of `run` that has the same session, action and new decision as an item that `older` still sends.

    Withdraw all other unsent items of `older`. Returns the number of deleted items.
    """
    waiting = select(CoaRequest.session_row).where(
        CoaRequest.tenant_id == older.tenant_id,
        CoaRequest.redecision_id == older.id,
        CoaRequest.state.in_(WAITING_STATES),
    )
    # nac.redecisions.dispatch limits the number of waiting requests.
    parameters = {"tenant": run.tenant_id, "waiting": list(session.scalars(waiting))}
    session.execute(_withdraw_unlike, parameters | {"run": older.id, "other": run.id})
    result = session.execute(_leave_alike, parameters | {"run": run.id, "other": older.id})
    assert isinstance(result, CursorResult)
    return result.rowcount


def find_alike_to_send(session: Session, tenant_id: TenantId, judgements: Sequence[Judgement]) -> set[int]:
    """Return the sessions for which a waiting or sending run has an unsent item with the same new decision."""
    to_come = Redecision.state.in_(("waiting", "sending"))
    items = _list_items_about(session, tenant_id, to_come, RedecisionItem.state == "found", judgements)
    return {session_row for _, session_row, is_alike in items if is_alike}


def find_held_back(session: Session, tenant_id: TenantId, judgements: Sequence[Judgement]) -> set[int]:
    """Return the sessions for which a stopped run has an item with the same new decision.

    Admit sends no requests about these sessions. If a later new decision about a session is different, the stopped run
    no longer prevents requests about this session.
    """
    item = RedecisionItem
    kept = (item.state != "settled") & item.released.is_(False)
    items = _list_items_about(session, tenant_id, Redecision.holds.is_(True), kept, judgements)
    by_run: defaultdict[int, list[int]] = defaultdict(list)
    for run_id, session_row, is_alike in items:
        if not is_alike:
            by_run[run_id].append(session_row)
    for run_id, rows in by_run.items():
        session.execute(_update_items(tenant_id, run_id, rows).values(released=True))
    return {session_row for _, session_row, is_alike in items if is_alike}


def _list_items_about(
    session: Session,
    tenant_id: TenantId,
    which: ColumnElement[bool],
    kept: ColumnElement[bool],
    judgements: Sequence[Judgement],
) -> list[tuple[int, int, bool]]:
    """Return (run, session, whether the new decisions are equal) for the items of these runs about the judged
    sessions."""
    judged = {each.live.id: _item_result(each) for each in judgements if not each.undecidable and not each.is_requested}
    # Usually there are no such runs.
    runs = (
        session.scalars(select(Redecision.id).where(Redecision.tenant_id == tenant_id, which)).all() if judged else []
    )
    if not runs:
        return []
    item = RedecisionItem
    query = select(
        item.redecision_id, item.session_row, item.action, *(getattr(item, name) for name in _AFTER_COLUMNS)
    ).where(
        item.tenant_id == tenant_id,
        item.redecision_id == any_(cast(list(runs), ARRAY(BigInteger))),
        item.session_row == any_(cast(list(judged), ARRAY(BigInteger))),
        kept,
    )
    return [(row[0], row[1], judged[row[1]] == tuple(row[2:])) for row in session.execute(query)]


def lock_waiting(session: Session, tenant_id: TenantId) -> Sequence[Redecision]:
    query = select(Redecision).where(Redecision.tenant_id == tenant_id, Redecision.state == "waiting")
    query = query.order_by(Redecision.id).with_for_update().execution_options(populate_existing=True)
    return session.scalars(query).all()


def settle_items(session: Session, run: Redecision, rows: Collection[int]) -> int:
    """Set the unsent items of these sessions to "settled", because the sessions need no request.

    Returns the number of these items.
    """
    unsent = RedecisionItem.state == "found"
    result = session.execute(_update_items(run.tenant_id, run.id, rows).where(unsent).values(state="settled"))
    assert isinstance(result, CursorResult)
    return result.rowcount


def _update_items(tenant_id: TenantId, run_id: int, rows: Collection[int]) -> Update:
    item = RedecisionItem
    about = item.session_row == any_(cast(list(rows), ARRAY(BigInteger)))
    update_ = update(item).where(item.tenant_id == tenant_id, item.redecision_id == run_id, about)
    return update_.execution_options(synchronize_session=False)


def release_stopped(session: Session, tenant_id: TenantId) -> None:
    """Release all stopped runs, so that they no longer prevent requests about their sessions."""
    session.execute(update(Redecision).where(Redecision.tenant_id == tenant_id, Redecision.holds).values(holds=False))


def _item_result(judgement: Judgement) -> tuple[str, ...]:
    """Return the values for the column `action` and for the columns in _AFTER_COLUMNS."""
    after = judgement.after
    result = after.verdict, after.rule_id, after.vlan, after.monitored
    return judgement.action, *result, judgement.reason


def count_states(session: Session, run: Redecision) -> dict[str, int]:
    query = select(RedecisionItem.state, func.count()).where(_items_of_run(run))
    return {row[0]: row[1] for row in session.execute(query.group_by(RedecisionItem.state))}


def count_requests(session: Session, run: Redecision) -> dict[str, int]:
    query = select(CoaRequest.state, func.count()).where(
        CoaRequest.tenant_id == run.tenant_id, CoaRequest.redecision_id == run.id
    )
    return {row[0]: row[1] for row in session.execute(query.group_by(CoaRequest.state))}


def count_waiting_by_nas(session: Session, tenant_id: TenantId) -> dict[str, int]:
    """Count pending requests of re-decisions by NAS (`sessions.nas_key`)."""
    query = select(CoaRequest.nas_key, func.count()).where(
        CoaRequest.tenant_id == tenant_id,
        CoaRequest.redecision_id.is_not(None),
        CoaRequest.state.in_(WAITING_STATES),
    )
    return {row[0]: row[1] for row in session.execute(query.group_by(CoaRequest.nas_key))}


def list_found_items(
    session: Session, run: Redecision, *, busy: Collection[str], limit: int
) -> Sequence[RedecisionItem]:
    query = (
        select(RedecisionItem)
        .where(
            _items_of_run(run),
            RedecisionItem.state == "found",
            RedecisionItem.nas_key != all_(cast(list(busy), ARRAY(Text))),
        )
        .order_by(RedecisionItem.session_row)
        .limit(limit)
    )
    return session.scalars(query.execution_options(populate_existing=True)).all()


def has_found_items(session: Session, run: Redecision) -> bool:
    found = select(RedecisionItem).where(_items_of_run(run), RedecisionItem.state == "found")
    return bool(session.scalar(select(found.exists())))


def withdraw_items(session: Session, run: Redecision) -> None:
    session.execute(
        update(RedecisionItem).where(_items_of_run(run), RedecisionItem.state == "found").values(state="withdrawn")
    )


def iter_found_changes(session: Session, run: Redecision) -> Iterator[CountedChange]:
    """Yield each group of equal changes, with the number of sessions in the group and an example."""
    item = RedecisionItem
    before = item.before_verdict, item.before_rule, item.before_vlan, item.before_monitored
    after = item.after_verdict, item.after_rule, item.after_vlan, item.after_monitored
    alike = (item.action, item.nas, item.site, item.after_reason, *before, *after)
    query = select(*alike, func.count(), func.min(item.session_row)).where(_items_of_run(run))
    counted = session.execute(query.group_by(*alike)).all()
    firsts = cast([row[-1] for row in counted], ARRAY(BigInteger))
    named = select(item).where(_items_of_run(run), item.session_row == any_(firsts))
    examples = {row.session_row: row for row in session.scalars(named)}
    for action, nas, site, reason, *answer, sessions, first in counted:
        example = examples[first]
        change = OutcomeChange(action, ComparedOutcome(*answer[:4]), ComparedOutcome(*answer[4:]), reason)
        yield CountedChange(
            change, nas, site, sessions, (SessionExample(first, example.mac or "", example.identity, example.nas),)
        )


def list_ended_with_items(session: Session, tenant_id: TenantId, before: datetime, limit: int) -> Sequence[Redecision]:
    """Lock and return runs that ended before `before` and still have items, oldest first."""
    query = select(Redecision).where(
        Redecision.tenant_id == tenant_id,
        Redecision.ended_at < before,
        Redecision.found.is_(None),
        Redecision.holds.is_(False),
    )
    return session.scalars(query.order_by(Redecision.id).limit(limit).with_for_update(skip_locked=True)).all()


def delete_items(session: Session, run: Redecision) -> int:
    result = session.execute(delete(RedecisionItem).where(_items_of_run(run)))
    assert isinstance(result, CursorResult)
    return result.rowcount


def prune(session: Session, tenant_id: TenantId, before: datetime) -> int:
    """Delete runs created before `before`, except runs that decide or send. Returns the number of deleted runs."""
    old = select(Redecision.id).where(
        Redecision.tenant_id == tenant_id,
        Redecision.created_at < before,
        Redecision.state.not_in(("deciding", "sending")),
    )
    session.execute(
        delete(RedecisionItem).where(RedecisionItem.tenant_id == tenant_id, RedecisionItem.redecision_id.in_(old))
    )
    result = session.execute(delete(Redecision).where(Redecision.id.in_(old)))
    assert isinstance(result, CursorResult)
    return result.rowcount
