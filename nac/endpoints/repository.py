from collections.abc import Collection, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from sqlalchemy import ColumnElement, and_, delete, exists, func, select
from sqlalchemy.orm import Session

from nac.db import by_order
from nac.db.orders import Orders, Plain, Span
from nac.db.sets import among
from nac.db.texts import has_part
from nac.endpoints.enrichment import IS_RANDOM
from nac.ids import TenantId
from nac.models import Endpoint, EndpointEvidence, EndpointGroup, EndpointGroupMember, EndpointSighting, Site

_CHUNK = 5_000
Listed = tuple[Endpoint, EndpointSighting | None]
_SEEN = and_(EndpointSighting.tenant_id == Endpoint.tenant_id, EndpointSighting.mac == Endpoint.mac)


class _Columns(NamedTuple):
    id: UUID
    mac: str
    name: str
    status: str
    valid_until: datetime | None
    attributes: dict[str, Any]
    owner: str
    notes: str
    first_seen_at: datetime | None
    vendor: str
    found_profile: str
    found_confidence: int
    os: str
    model: str
    set_profile: str
    created_at: datetime
    updated_at: datetime
    last_seen_at: datetime | None
    has_psk: bool


class Shown(_Columns, Plain):
    """What lists show of an endpoint, and when it was seen last."""

    __slots__ = ()

    @property
    def profile(self) -> str:
        return self.set_profile or self.found_profile

    @property
    def profile_confidence(self) -> int:
        return 100 if self.set_profile else self.found_confidence


_SHOWN = select(
    *(getattr(Endpoint, name) for name in _Columns._fields[:-2]),
    EndpointSighting.last_seen_at,
    Endpoint.psk_sealed.is_not(None),
).outerjoin(EndpointSighting, _SEEN)

# Of hundreds of thousands: an index has each of these.
ORDERS = Orders(
    {
        "mac": (Endpoint.mac,),
        "name": (Endpoint.name, Endpoint.mac),
        "created_at": (Endpoint.created_at, Endpoint.mac),
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """What is asked of a list of endpoints; what is empty asks nothing."""

    macs: tuple[str, ...] = ()
    statuses: tuple[str, ...] = ()
    group: str = ""
    # A part of its name, in any case.
    vendor: str = ""
    profile: str = ""
    # A part of name or owner, in any case.
    text: str = ""
    # Slug of the site where it was seen last.
    site: str = ""
    seen_since: datetime | None = None
    random: bool | None = None

    @property
    def finds_few(self) -> bool:
        """Whether an index has what it asks for."""
        return bool(self.macs or self.group) or self.statuses == ("discovered",)

    def conditions(self, tenant_id: TenantId) -> list[ColumnElement[bool]]:
        wanted: list[ColumnElement[bool]] = [Endpoint.tenant_id == tenant_id]
        if self.macs:
            wanted.append(among(Endpoint.mac, self.macs))
        if self.statuses:
            wanted.append(Endpoint.status.in_(self.statuses))
        if self.group:
            wanted.append(_is_in_group(self.group))
        if self.vendor:
            wanted.append(Endpoint.vendor.icontains(self.vendor, autoescape=True))
        if self.profile:
            wanted.append(func.coalesce(func.nullif(Endpoint.set_profile, ""), Endpoint.found_profile) == self.profile)
        if self.text:
            wanted.append(has_part(self.text, Endpoint.name, Endpoint.owner))
        if self.site:
            at = select(Site.id).where(Site.tenant_id == tenant_id, Site.slug == self.site).scalar_subquery()
            wanted.append(EndpointSighting.site_id == at)
        if self.seen_since is not None:
            wanted.append(EndpointSighting.last_seen_at >= self.seen_since)
        if self.random is not None:
            wanted.append(IS_RANDOM if self.random else ~IS_RANDOM)
        return wanted


def _is_in_group(name: str) -> ColumnElement[bool]:
    return exists().where(
        EndpointGroupMember.endpoint_id == Endpoint.id,
        EndpointGroup.id == EndpointGroupMember.group_id,
        EndpointGroup.name == name,
    )


def get_by_mac(session: Session, tenant_id: TenantId, mac: str, *, lock: bool = False) -> Endpoint | None:
    query = select(Endpoint).where(Endpoint.tenant_id == tenant_id, Endpoint.mac == mac)
    if lock:
        query = query.with_for_update().execution_options(populate_existing=True)
    return session.scalar(query)


def forget(session: Session, tenant_id: TenantId, mac: str) -> None:
    """What was seen and said of an address that is no endpoint any more."""
    for table in (EndpointSighting, EndpointEvidence):
        session.execute(delete(table).where(table.tenant_id == tenant_id, table.mac == mac))


def delete_many(session: Session, tenant_id: TenantId, macs: Sequence[str]) -> None:
    """With what was seen and said of them."""
    for start in range(0, len(macs), _CHUNK):
        part = macs[start : start + _CHUNK]
        for table in (Endpoint, EndpointSighting, EndpointEvidence):
            gone = delete(table).where(table.tenant_id == tenant_id, table.mac.in_(part))
            session.execute(gone, execution_options={"synchronize_session": False})
    session.expire_all()


def list_page(
    session: Session, tenant_id: TenantId, wanted: Filter, *, span: Span, lock: bool = False
) -> Sequence[Listed]:
    """Each with its sighting."""
    query = select(Endpoint, EndpointSighting).outerjoin(EndpointSighting, _SEEN)
    query = span.of(query.where(*wanted.conditions(tenant_id)))
    if lock:
        query = query.with_for_update(of=Endpoint).execution_options(populate_existing=True)
    with nullcontext() if wanted.finds_few else by_order(session):
        return [(endpoint, sighting) for endpoint, sighting in session.execute(query).all()]


def list_shown(session: Session, tenant_id: TenantId, wanted: Filter, *, span: Span) -> Sequence[Shown]:
    query = span.of(_SHOWN.where(*wanted.conditions(tenant_id)))
    with nullcontext() if wanted.finds_few else by_order(session):
        return [Shown._make(row) for row in session.execute(query).all()]


def lock_macs(session: Session, tenant_id: TenantId, macs: Collection[str]) -> dict[str, Endpoint]:
    """Those that there are, locked in the order of their addresses, as whoever locks several does."""
    query = select(Endpoint).where(Endpoint.tenant_id == tenant_id, Endpoint.mac.in_(macs)).order_by(Endpoint.mac)
    query = query.with_for_update().execution_options(populate_existing=True)
    return {endpoint.mac: endpoint for endpoint in session.scalars(query)}


def list_evidence(session: Session, tenant_id: TenantId, mac: str) -> Sequence[EndpointEvidence]:
    query = select(EndpointEvidence).where(EndpointEvidence.tenant_id == tenant_id, EndpointEvidence.mac == mac)
    return session.scalars(query.order_by(EndpointEvidence.source, EndpointEvidence.key)).all()
