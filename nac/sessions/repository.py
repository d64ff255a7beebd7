"""Sessions by what is asked for them, in pages: first those that are live, then those that ended, the last one first.

Three places hold sessions: `sessions` the live ones and those that ended in the last days, some of these only taken for
ended (see radius/agent/session_keeping.py), and `session_history` the rest. Each is asked for a page of its own by an
index; the page is what comes first of all three.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, NamedTuple, TypeVar
from uuid import UUID

from sqlalchemy import ColumnElement, Select, func, literal_column, select, tuple_
from sqlalchemy.orm import Session

from nac.ids import TenantId
from nac.models import EndedSession, RadiusSession

AnySession = RadiusSession | EndedSession
T = TypeVar("T", RadiusSession, EndedSession)
_IS_STALE: ColumnElement[bool] = literal_column("'stale' = ANY (sessions.flags)")
_IS_NOT_STALE: ColumnElement[bool] = literal_column("NOT ('stale' = ANY (sessions.flags))")


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """ "" and None leave a part out; what is given must all fit."""

    # 12 lower-case hex digits.
    mac: str = ""
    # User-Name, upper or lower case.
    user: str = ""
    # IPv4 or IPv6 of the device; IPv6 finds the delegated prefix that holds it, too.
    address: str = ""
    site_id: UUID | None = None
    # With the NAS's site, which is what the index knows it by.
    nas_id: UUID | None = None
    # Those that were there at some time from `since` to before `until`.
    since: datetime | None = None
    until: datetime | None = None


class Key(NamedTuple):
    """Where a page ends: `moment` is the start of a live session and the end of another."""

    part: Literal["live", "ended"]
    moment: datetime
    id: int


def key_of(found: AnySession) -> Key:
    return (
        Key("live", found.started_at, found.id)
        if found.stopped_at is None
        else Key("ended", found.stopped_at, found.id)
    )


def list_live(
    session: Session, tenant_id: TenantId, wanted: Filter, *, after: Key | None, limit: int
) -> Sequence[RadiusSession]:
    """The newest first."""
    table = RadiusSession
    query = (
        select(table)
        .where(table.tenant_id == tenant_id, table.stopped_at.is_(None), *_conditions(table, wanted))
        .order_by(table.started_at.desc(), table.id.desc())
        .limit(limit)
    )
    if after is not None:
        query = query.where(tuple_(table.started_at, table.id) < (after.moment, after.id))
    return session.scalars(query).all()


def list_ended(
    session: Session, tenant_id: TenantId, wanted: Filter, *, after: Key | None, limit: int
) -> Sequence[AnySession]:
    """The one that ended last first."""
    found: list[AnySession] = []
    for which in (_IS_NOT_STALE, _IS_STALE):
        recent = _ended(RadiusSession, tenant_id, wanted, after).where(which).limit(limit)
        found += session.scalars(recent).all()
    found += session.scalars(_ended(EndedSession, tenant_id, wanted, after).limit(limit)).all()
    return sorted(found, key=lambda each: key_of(each)[1:], reverse=True)[:limit]


def _ended(table: type[T], tenant_id: TenantId, wanted: Filter, after: Key | None) -> Select[T]:
    query = (
        select(table)
        .where(table.tenant_id == tenant_id, table.stopped_at.is_not(None), *_conditions(table, wanted))
        .order_by(table.stopped_at.desc(), table.id.desc())
    )
    if wanted.since is not None:
        query = query.where(table.stopped_at >= wanted.since)
    if after is not None:
        # The bound on the time alone is what leaves out partitions.
        query = query.where(
            table.stopped_at <= after.moment, tuple_(table.stopped_at, table.id) < (after.moment, after.id)
        )
    return query


def _conditions(table: type[RadiusSession] | type[EndedSession], wanted: Filter) -> list[ColumnElement[bool]]:
    conditions = []
    if wanted.mac:
        conditions.append(table.mac == wanted.mac)
    if wanted.user:
        conditions.append(table.identity_key == func.lower(wanted.user))
    if wanted.address:
        conditions.append(_has_address(table, wanted.address))
    if wanted.site_id is not None:
        conditions.append(table.site_id == wanted.site_id)
    if wanted.nas_id is not None:
        conditions.append(table.nas_id == wanted.nas_id)
    if wanted.until is not None:
        conditions.append(table.started_at < wanted.until)
    return conditions


def _has_address(table: type[RadiusSession] | type[EndedSession], address: str) -> ColumnElement[bool]:
    if ":" not in address:
        return table.framed_ip == address
    return (
        (table.framed_ipv6 == address)
        | table.framed_prefix.op(">>=")(address)
        | table.delegated_prefix.op(">>=")(address)
    )
