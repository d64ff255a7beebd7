from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import ARRAY, BigInteger, ColumnElement, Select, any_, cast, select
from sqlalchemy.orm import Session

from nac.accounts.owners import Owner
from nac.accounts.permissions import Level
from nac.db import by_order
from nac.db.orders import Orders, Span
from nac.ids import TenantId
from nac.models import AuditChain, AuditEntry, AuditKey, AuditSeal

# As pages go.
Key = tuple[datetime, int]

# Of rows that no index tells apart, a page looks through so many.
LOOKED_THROUGH = 25_000

ORDERS = Orders({"at": (AuditEntry.at, AuditEntry.id)}, default="-at")


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """What is "" or None asks for nothing."""

    actor: str = ""
    action: str = ""
    target: str = ""
    request_id: str = ""
    address: str = ""
    # A part of the target, whatever the case.
    text: str = ""
    # The second is left out.
    since: datetime | None = None
    until: datetime | None = None


def list_entries(
    session: Session, *, tenant_id: TenantId | None, before_id: int | None, limit: int
) -> Sequence[AuditEntry]:
    query = select(AuditEntry).order_by(AuditEntry.id.desc()).limit(limit)
    if tenant_id is not None:
        query = query.where(AuditEntry.tenant_id == tenant_id)
    if before_id is not None:
        query = query.where(AuditEntry.id < before_id)
    return session.scalars(query).all()


def search(session: Session, *, owner: Owner, wanted: Filter, span: Span) -> tuple[Sequence[AuditEntry], Key | None]:
    """Rows, and the key as far as which it was looked where there may be more behind it."""
    found, told_apart = _by_index(owner, wanted)
    order = span.order
    found = order.sorted(found)
    if span.after is not None:
        found = found.where(order.behind(span.after))
    end = None
    # By a request's id there are few, in whatever order.
    with nullcontext() if wanted.request_id else by_order(session):
        if told_apart:
            last = found.with_only_columns(AuditEntry.at, AuditEntry.id).offset(LOOKED_THROUGH - 1).limit(1)
            if (row := session.execute(last).one_or_none()) is not None:
                end = (row.at, row.id)
                # The first says to the planner how few rows it is about.
                within = AuditEntry.at >= end[0] if order.goes_down else AuditEntry.at <= end[0]
                found = found.where(within, ~order.behind(end))
        return session.scalars(found.where(*told_apart).limit(span.limit)).all(), end


def _by_index(owner: Owner, wanted: Filter) -> tuple[Select[AuditEntry], list[ColumnElement[bool]]]:
    """By one of the indexes in the order of pages; and what is left to be asked of each row."""
    given = {name: value for name in ("target", "actor", "action", "address") if (value := getattr(wanted, name))}
    query = select(AuditEntry).where(*owned(owner))
    if wanted.since is not None:
        query = query.where(AuditEntry.at >= wanted.since)
    if wanted.until is not None:
        query = query.where(AuditEntry.at < wanted.until)
    if wanted.request_id:
        query = query.where(AuditEntry.request_id == wanted.request_id)
    elif owner.level is Level.TENANT:
        # The one that most likely names few.
        first = next((name for name in given if name != "address"), None)
        if first is not None:
            query = query.where(getattr(AuditEntry, first) == given.pop(first))
    rest = [getattr(AuditEntry, name) == value for name, value in given.items()]
    if wanted.text:
        rest.append(AuditEntry.target.icontains(wanted.text, autoescape=True))
    return query, rest


def owned(owner: Owner) -> list[ColumnElement[bool]]:
    """The platform has all of them."""
    if owner.tenant_id is not None:
        return [AuditEntry.tenant_id == owner.tenant_id]
    return [] if owner.msp_id is None else [AuditEntry.msp_id == owner.msp_id]


def entries_of(session: Session, ids: Sequence[int]) -> Sequence[AuditEntry]:
    query = select(AuditEntry).where(AuditEntry.id == any_(cast(list(ids), ARRAY(BigInteger))))
    return session.scalars(query.order_by(AuditEntry.id)).all()


def seals_of(session: Session, ids: Sequence[int]) -> Sequence[AuditSeal]:
    return session.scalars(
        select(AuditSeal).where(AuditSeal.entry_id == any_(cast(list(ids), ARRAY(BigInteger))))
    ).all()


def get(session: Session, *, owner: Owner, entry_id: int) -> AuditEntry | None:
    return session.scalar(select(AuditEntry).where(*owned(owner), AuditEntry.id == entry_id))


def get_chain(session: Session, owner: Owner) -> AuditChain | None:
    return session.scalar(select(AuditChain).where(owner.owns(AuditChain)))


def seals_behind(session: Session, chain_id: int, *, position: int, until: int, limit: int) -> Sequence[AuditSeal]:
    places = select(AuditSeal).where(AuditSeal.chain_id == chain_id, AuditSeal.position > position)
    return session.scalars(places.where(AuditSeal.position <= until).order_by(AuditSeal.position).limit(limit)).all()


def hash_at(session: Session, chain_id: int, position: int) -> bytes | None:
    return session.scalar(select(AuditSeal.hash).where(AuditSeal.chain_id == chain_id, AuditSeal.position == position))


def public_key(session: Session, key_id: int) -> bytes:
    return session.scalars(select(AuditKey.public_key).where(AuditKey.id == key_id)).one()
