from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import ARRAY, BigInteger, ColumnElement, any_, cast, select
from sqlalchemy.orm import Session

from nac.core.access.grants import Owner
from nac.kit.db.queries import BoundedPage, contains_text, search_bounded
from nac.kit.db.sort_orders import PageSpan, SortOrders
from nac.kit.ids import TenantId
from nac.kit.permissions import PermissionLevel
from nac.models import AuditChain, AuditEntry, AuditKey, AuditSeal

ORDERS = SortOrders({"at": (AuditEntry.at, AuditEntry.id)}, default="-at")


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEntryFilter:
    """Filter of audit entries. "" and None match all entries."""

    actor: str = ""
    action: str = ""
    target: str = ""
    request_id: str = ""
    address: str = ""
    # Part of the target. Case is ignored.
    text: str = ""
    # Entries at `since` or later, and before `until`.
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


def search_entries(
    session: Session, *, owner: Owner, wanted: AuditEntryFilter, span: PageSpan
) -> BoundedPage[AuditEntry]:
    clauses = owner_clauses(owner)
    if wanted.since is not None:
        clauses.append(AuditEntry.at >= wanted.since)
    if wanted.until is not None:
        clauses.append(AuditEntry.at < wanted.until)
    exact = {name: value for name in ("target", "actor", "action", "address") if (value := getattr(wanted, name))}
    if owner.level is PermissionLevel.TENANT:
        # Use the index of only one condition: the first condition, which probably matches the fewest entries.
        first = next((name for name in exact if name != "address"), None)
        if first is not None:
            clauses.append(getattr(AuditEntry, first) == exact.pop(first))

    def list_conditions(each: Any) -> list[ColumnElement[bool]]:  # noqa: ANN401 -- entries, or an alias of them
        conditions = [getattr(each, name) == value for name, value in exact.items()]
        return [*conditions, contains_text(wanted.text, each.target)] if wanted.text else conditions

    if wanted.request_id:
        # One request writes few entries, so PostgreSQL can sort them without an index.
        query = select(AuditEntry).where(
            AuditEntry.request_id == wanted.request_id, *clauses, *list_conditions(AuditEntry)
        )
        return BoundedPage(session.scalars(span.of(query)).all(), None)
    return search_bounded(session, AuditEntry, clauses, list_conditions, span)


def owner_clauses(owner: Owner) -> list[ColumnElement[bool]]:
    """SQL conditions for entries that the owner can read. The platform can read all entries."""
    if owner.tenant_id is not None:
        return [AuditEntry.tenant_id == owner.tenant_id]
    return [] if owner.msp_id is None else [AuditEntry.msp_id == owner.msp_id]


def list_entries_by_ids(session: Session, ids: Sequence[int]) -> Sequence[AuditEntry]:
    query = select(AuditEntry).where(AuditEntry.id == any_(cast(list(ids), ARRAY(BigInteger))))
    return session.scalars(query.order_by(AuditEntry.id)).all()


def list_seals(session: Session, ids: Sequence[int]) -> Sequence[AuditSeal]:
    return session.scalars(
        select(AuditSeal).where(AuditSeal.entry_id == any_(cast(list(ids), ARRAY(BigInteger))))
    ).all()


def get(session: Session, *, owner: Owner, entry_id: int) -> AuditEntry | None:
    return session.scalar(select(AuditEntry).where(*owner_clauses(owner), AuditEntry.id == entry_id))


def get_chain(session: Session, owner: Owner) -> AuditChain | None:
    return session.scalar(select(AuditChain).where(owner.owns(AuditChain)))


def list_seals_after(session: Session, chain_id: int, *, position: int, until: int, limit: int) -> Sequence[AuditSeal]:
    places = select(AuditSeal).where(AuditSeal.chain_id == chain_id, AuditSeal.position > position)
    return session.scalars(places.where(AuditSeal.position <= until).order_by(AuditSeal.position).limit(limit)).all()


def get_hash(session: Session, chain_id: int, position: int) -> bytes | None:
    return session.scalar(select(AuditSeal.hash).where(AuditSeal.chain_id == chain_id, AuditSeal.position == position))


def get_public_key(session: Session, key_id: int) -> bytes:
    return session.scalars(select(AuditKey.public_key).where(AuditKey.id == key_id)).one()
