"""Seals of audit entries. The worker adds each entry to its chain some seconds after the entry's transaction.

A transaction that writes an entry also stores the id of the entry in the table `audit_unsealed`. The worker later
seals the entries of committed transactions in the order of the entry ids. So transactions that write entries do not
wait for each other.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime

from sqlalchemy import insert, select, text
from sqlalchemy.orm import Session

from nac.core import alarms
from nac.core.access.grants import Owner
from nac.core.audit import repository
from nac.core.audit import service as audit
from nac.core.audit.chain import HeadKey, chain_name, chain_owner, entry_text, first_hash, head_text, next_hash
from nac.models import AuditChain, AuditEntry, AuditSeal

BROKEN_CHAIN_ALARM = "audit-chain-broken"
MISSING_ENTRY_ALARM = "audit-entry-missing"
BATCH_SIZE = 5_000

_ACTOR = "system:worker"
_TRY_LOCK = text("SELECT pg_try_advisory_xact_lock(hashtext('audit'), hashtext('seal'))")
_SELECT_WAITING = text("SELECT entry_id FROM audit_unsealed WHERE NOT held ORDER BY entry_id LIMIT :most")
_HOLD_ENTRIES = text("UPDATE audit_unsealed SET held = true WHERE entry_id = ANY (:ids)")
_RELEASE_HELD = text("UPDATE audit_unsealed SET held = false WHERE held")
_DELETE_SEALED = text("DELETE FROM audit_unsealed WHERE entry_id = ANY (:ids) AND NOT held")


def seal_waiting_entries(
    session: Session, *, keys: Mapping[int, HeadKey], now: datetime, most: int = BATCH_SIZE
) -> int:
    """Seal waiting entries and return their number. Needs database role admit_worker and PlatformScope.

    Returns 0 if another worker is sealing.
    """
    if not session.scalar(_TRY_LOCK):
        return 0
    _recheck_broken(session, keys)
    ids = session.scalars(_SELECT_WAITING, {"most": most}).all()
    if not ids:
        return 0
    found = repository.list_entries_by_ids(session, ids)
    _report_missing(session, set(ids).difference(entry.id for entry in found), now)
    waiting: dict[Owner, list[AuditEntry]] = defaultdict(list)
    for entry in found:
        waiting[chain_owner(entry)].append(entry)
    chains = _chains_by_owner(session)
    held: list[int] = []
    for owner, entries in waiting.items():
        chain = chains.get(owner)
        if chain is not None and not is_chain_intact(session, chain, keys):
            chain.broken = True
            held += [entry.id for entry in entries]
        else:
            _seal_entries(session, owner, chain, entries, keys=keys, now=now)
    if held:
        session.execute(_HOLD_ENTRIES, {"ids": held})
    session.execute(_DELETE_SEALED, {"ids": list(ids)})
    session.flush()
    _raise_broken_alarm(session, now)
    return len(ids)


def is_chain_intact(session: Session, chain: AuditChain, keys: Mapping[int, HeadKey]) -> bool:
    """Whether the head of the chain has a valid signature and matches the seal of the last entry.

    Otherwise a user changed rows directly in the database. Admit then seals no further entries of the chain, because a
    new head would also sign these changes.
    """
    head = head_text(
        chain_name(Owner(chain.msp_id, chain.tenant_id)), position=chain.position, digest=chain.hash, at=chain.sealed_at
    )
    key = keys.get(chain.key_id)
    if key is None or not key.signed(head, chain.signature):
        return False
    places = select(AuditSeal.position, AuditSeal.hash).where(AuditSeal.chain_id == chain.id)
    last = session.execute(places.order_by(AuditSeal.position.desc()).limit(1)).one_or_none()
    return last is not None and tuple(last) == (chain.position, chain.hash)


def _chains_by_owner(session: Session) -> dict[Owner, AuditChain]:
    rows = session.scalars(select(AuditChain)).all()
    return {Owner(chain.msp_id, chain.tenant_id): chain for chain in rows}


def _seal_entries(
    session: Session,
    owner: Owner,
    chain: AuditChain | None,
    entries: Sequence[AuditEntry],
    *,
    keys: Mapping[int, HeadKey],
    now: datetime,
) -> None:
    name, key = chain_name(owner), keys[max(keys)]
    digest, last = (chain.hash, chain.position) if chain else (first_hash(name), 0)
    places = []
    for position, entry in enumerate(entries, start=last + 1):
        digest = next_hash(digest, entry_text(entry))
        places.append({"position": position, "entry_id": entry.id, "hash": digest})
    last += len(places)
    signature = key.sign(head_text(name, position=last, digest=digest, at=now))
    head = {"position": last, "hash": digest, "sealed_at": now, "key_id": key.id, "signature": signature}
    if chain is None:
        chain = AuditChain(**owner.columns(), **head, broken=False)
        session.add(chain)
        session.flush()
    else:
        for column, value in head.items():
            setattr(chain, column, value)
    session.execute(insert(AuditSeal), [{"chain_id": chain.id, **place} for place in places])


def _recheck_broken(session: Session, keys: Mapping[int, HeadKey]) -> None:
    """Resume the sealing of broken chains whose rows are correct again."""
    broken = session.scalars(select(AuditChain).where(AuditChain.broken)).all()
    mended = [chain for chain in broken if is_chain_intact(session, chain, keys)]
    for chain in mended:
        chain.broken = False
    if mended:
        session.execute(_RELEASE_HELD)
        session.flush()
        if len(mended) == len(broken):
            alarms.clear_alarm(session, code=BROKEN_CHAIN_ALARM)


def _raise_broken_alarm(session: Session, now: datetime) -> None:
    broken = [chain_name(owner) for owner, chain in _chains_by_owner(session).items() if chain.broken]
    if broken:
        detail = f"The audit log was changed outside Admit: {', '.join(sorted(broken)[:5])} ({len(broken)} in total)."
        alarms.raise_alarm(session, code=BROKEN_CHAIN_ALARM, detail=detail, now=now)


def _report_missing(session: Session, missing: set[int], now: datetime) -> None:
    """Report entries that a user deleted in the database before Admit sealed them.

    The deleted entries have no position in the chain, so an export cannot show that they are missing.
    """
    if not missing:
        return
    for entry_id in sorted(missing)[:100]:
        audit.append(session, actor=_ACTOR, action="audit.miss", target=f"entry {entry_id}")
    first = ", ".join(map(str, sorted(missing)[:5]))
    detail = f"{len(missing)} audit entries were deleted before they were sealed: {first}."
    alarms.raise_alarm(session, code=MISSING_ENTRY_ALARM, detail=detail, now=now)
