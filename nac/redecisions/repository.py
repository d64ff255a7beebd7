from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import (
    ColumnElement,
    CursorResult,
    Text,
    and_,
    cast,
    delete,
    exists,
    func,
    select,
    update,
)
from sqlalchemy.dialects.postgresql import insert as insert_or_update
from sqlalchemy.orm import Session, aliased

from nac.coa_requests.queueing import WAITING
from nac.ids import TenantId
from nac.models import CoaRequest, Redecision, RedecisionItem
from nac.policies.differences import Answer
from nac.redecisions.judging import Judgement
from nac.redecisions.tallies import Change, Example, Found

OPEN = ("deciding", "waiting", "sending")
_AFTER = ("after_verdict", "after_rule", "after_vlan", "after_monitored", "after_reason")


def take_turn(session: Session, tenant_id: TenantId) -> bool:
    """Until the transaction ends; False where another worker is at it."""
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
    """All that people may stop: who does that locks the run first and then its requests."""
    query = select(Redecision.id).where(Redecision.tenant_id == tenant_id, Redecision.state.in_(OPEN))
    session.execute(query.order_by(Redecision.id).with_for_update())


def lock_sending(session: Session, tenant_id: TenantId, limit: int) -> Sequence[Redecision]:
    """Those first that have waited longest."""
    query = select(Redecision).where(Redecision.tenant_id == tenant_id, Redecision.state == "sending")
    query = query.order_by(Redecision.fed_at.nulls_first(), Redecision.id).limit(limit).with_for_update()
    return session.scalars(query.execution_options(populate_existing=True)).all()


def lock_before(session: Session, run: Redecision) -> Sequence[Redecision]:
    """Those that are open and older."""
    query = select(Redecision).where(
        Redecision.tenant_id == run.tenant_id, Redecision.id < run.id, Redecision.state.in_(OPEN)
    )
    return session.scalars(
        query.order_by(Redecision.id).with_for_update().execution_options(populate_existing=True)
    ).all()


def list_page(session: Session, tenant_id: TenantId, *, before_id: int | None, limit: int) -> Sequence[Redecision]:
    query = select(Redecision).where(Redecision.tenant_id == tenant_id).order_by(Redecision.id.desc()).limit(limit)
    if before_id is not None:
        query = query.where(Redecision.id < before_id)
    return session.scalars(query.execution_options(populate_existing=True)).all()


def recent_disconnects(session: Session, run: Redecision, since: datetime) -> int:
    """Of other re-decisions that nobody was asked about."""
    query = select(func.coalesce(func.sum(Redecision.may_disconnect), 0)).where(
        Redecision.tenant_id == run.tenant_id,
        Redecision.id != run.id,
        Redecision.created_at > since,
        Redecision.state.in_(("sending", "done")),
        Redecision.sends.is_(False),
    )
    return int(session.scalar(query) or 0)


def unfollowed_change(session: Session, tenant_id: TenantId) -> str | None:
    """The last transaction of the tenant that its cell does not decide with yet. As admit_worker."""
    found = session.scalar(select(cast(func.unfollowed_change(tenant_id), Text)))
    return None if found is None else str(found)


def last_fed(session: Session, tenant_id: TenantId) -> datetime | None:
    return session.scalar(select(func.max(Redecision.fed_at)).where(Redecision.tenant_id == tenant_id))


def _of(run: Redecision) -> ColumnElement[bool]:
    return and_(RedecisionItem.tenant_id == run.tenant_id, RedecisionItem.redecision_id == run.id)


def put_items(session: Session, run: Redecision, judgements: Iterable[Judgement]) -> None:
    """Of a session that is there already the later judgement counts."""
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
    """By action."""
    query = select(RedecisionItem.action, func.count()).where(_of(run))
    return {row[0]: row[1] for row in session.execute(query.group_by(RedecisionItem.action))}


def count_disconnecting(session: Session, run: Redecision) -> int:
    """Of those where a step of what the NAS is asked is a Disconnect."""
    query = select(func.count()).select_from(RedecisionItem).where(_of(run), RedecisionItem.may_disconnect)
    return session.scalar(query) or 0


def leave_alike(session: Session, run: Redecision, older: Redecision) -> int:
    """What `older` has found and not got answers to, and `run` has found just so, stays with `older`, and nothing else
    of what it has not sent; returns how much."""
    item, theirs = aliased(RedecisionItem), aliased(RedecisionItem)
    same = (getattr(item, name) == getattr(theirs, name) for name in ("tenant_id", "session_row", "action", *_AFTER))
    waits = exists().where(
        CoaRequest.tenant_id == run.tenant_id,
        CoaRequest.session_row == theirs.session_row,
        CoaRequest.redecision_id == older.id,
        CoaRequest.state.in_(WAITING),
    )
    alike = select(item.session_row).where(
        item.tenant_id == run.tenant_id,
        item.redecision_id == run.id,
        theirs.redecision_id == older.id,
        (theirs.state == "found") | waits,
        *same,
    )
    rows = session.scalars(alike).all()
    gone = update(RedecisionItem).where(
        _of(older), RedecisionItem.state == "found", RedecisionItem.session_row.not_in(rows)
    )
    session.execute(gone.values(state="withdrawn").execution_options(synchronize_session=False))
    left = delete(RedecisionItem).where(_of(run), RedecisionItem.session_row.in_(rows))
    session.execute(left.execution_options(synchronize_session=False))
    return len(rows)


def count_states(session: Session, run: Redecision) -> dict[str, int]:
    """Of its items, by state."""
    query = select(RedecisionItem.state, func.count()).where(_of(run))
    return {row[0]: row[1] for row in session.execute(query.group_by(RedecisionItem.state))}


def count_requests(session: Session, run: Redecision) -> dict[str, int]:
    """To NASes, by state."""
    query = select(CoaRequest.state, func.count()).where(
        CoaRequest.tenant_id == run.tenant_id, CoaRequest.redecision_id == run.id
    )
    return {row[0]: row[1] for row in session.execute(query.group_by(CoaRequest.state))}


def waiting_at_nases(session: Session, tenant_id: TenantId) -> dict[str, int]:
    """Requests that follow from re-decisions and have not ended, by NAS (`sessions.nas_key`)."""
    query = select(CoaRequest.nas_key, func.count()).where(
        CoaRequest.tenant_id == tenant_id,
        CoaRequest.redecision_id.is_not(None),
        CoaRequest.state.in_(WAITING),
    )
    return {row[0]: row[1] for row in session.execute(query.group_by(CoaRequest.nas_key))}


def found_items(session: Session, run: Redecision, *, busy: Collection[str], limit: int) -> Sequence[RedecisionItem]:
    query = (
        select(RedecisionItem)
        .where(
            _of(run),
            RedecisionItem.state == "found",
            RedecisionItem.nas_key.not_in(list(busy)),
        )
        .order_by(RedecisionItem.session_row)
        .limit(limit)
    )
    return session.scalars(query.execution_options(populate_existing=True)).all()


def has_found(session: Session, run: Redecision) -> bool:
    found = select(RedecisionItem).where(_of(run), RedecisionItem.state == "found")
    return bool(session.scalar(select(found.exists())))


def withdraw_items(session: Session, run: Redecision) -> None:
    session.execute(update(RedecisionItem).where(_of(run), RedecisionItem.state == "found").values(state="withdrawn"))


def found_of(session: Session, run: Redecision) -> Iterator[Found]:
    """What it found, counted by PostgreSQL, with an example of each."""
    item = RedecisionItem
    before = item.before_verdict, item.before_rule, item.before_vlan, item.before_monitored
    after = item.after_verdict, item.after_rule, item.after_vlan, item.after_monitored
    alike = (item.action, item.nas, item.site, item.after_reason, *before, *after)
    query = select(*alike, func.count(), func.min(item.session_row)).where(_of(run))
    counted = session.execute(query.group_by(*alike)).all()
    named = select(item).where(_of(run), item.session_row.in_([row[-1] for row in counted]))
    examples = {row.session_row: row for row in session.scalars(named)}
    for action, nas, site, reason, *told, sessions, first in counted:
        example = examples[first]
        change = Change(action, Answer(*told[:4]), Answer(*told[4:]), reason)
        yield Found(change, nas, site, sessions, (Example(first, example.mac or "", example.identity, example.nas),))


def ended_with_items(session: Session, tenant_id: TenantId, before: datetime, limit: int) -> Sequence[Redecision]:
    """Runs that were over then and whose items are still there, the oldest first."""
    query = select(Redecision).where(
        Redecision.tenant_id == tenant_id, Redecision.ended_at < before, Redecision.found.is_(None)
    )
    return session.scalars(query.order_by(Redecision.id).limit(limit).with_for_update(skip_locked=True)).all()


def delete_items(session: Session, run: Redecision) -> int:
    result = session.execute(delete(RedecisionItem).where(_of(run)))
    assert isinstance(result, CursorResult)
    return result.rowcount


def prune(session: Session, tenant_id: TenantId, before: datetime) -> int:
    """With their items; nothing that is at work."""
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
