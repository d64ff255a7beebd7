from collections.abc import Collection, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from sqlalchemy import ARRAY, ColumnElement, and_, cast, delete, exists, false, func, select, true
from sqlalchemy.orm import Session, aliased

from nac.inventory.endpoints.enrichment import random_mac_clause
from nac.kit.db import force_index_order
from nac.kit.db.queries import BoundedPage, contains_text, in_array, search_bounded
from nac.kit.db.sort_orders import PageSpan, PlainRow, SortOrders
from nac.kit.ids import TenantId
from nac.models import Endpoint, EndpointEvidence, EndpointGroup, EndpointGroupMember, EndpointSighting, Site

_DELETE_BATCH = 5_000
_SELECTIVE_LIMIT = 2_000
EndpointWithSighting = tuple[Endpoint, EndpointSighting | None]
_SIGHTING_JOIN = and_(EndpointSighting.tenant_id == Endpoint.tenant_id, EndpointSighting.mac == Endpoint.mac)


class _EndpointColumns(NamedTuple):
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


class EndpointView(_EndpointColumns, PlainRow):
    """An endpoint in a list, with the time when the device was last seen."""

    __slots__ = ()

    @property
    def profile(self) -> str:
        return self.set_profile or self.found_profile

    @property
    def profile_confidence(self) -> int:
        return 100 if self.set_profile else self.found_confidence


# Scalar subquery, so that PostgreSQL looks up the sighting of each endpoint by key. With a join, PostgreSQL would read
# all sightings of the tenant (ADR 0014).
_LAST_SEEN = select(EndpointSighting.last_seen_at).where(_SIGHTING_JOIN).limit(1).correlate(Endpoint).scalar_subquery()
_VIEW_QUERY = select(
    *(getattr(Endpoint, name) for name in _EndpointColumns._fields[:-2]), _LAST_SEEN, Endpoint.psk_sealed.is_not(None)
)

# Tenants have hundreds of thousands of endpoints, so each order has an index.
ORDERS = SortOrders(
    {
        "mac": (Endpoint.mac,),
        "name": (Endpoint.name, Endpoint.mac),
        "created_at": (Endpoint.created_at, Endpoint.mac),
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointCriteria:
    """Filter for a list of endpoints. Empty fields match all endpoints."""

    macs: tuple[str, ...] = ()
    statuses: tuple[str, ...] = ()
    group: str = ""
    # Part of the vendor's name, ignoring case.
    vendor: str = ""
    profile: str = ""
    # Part of the endpoint's name or owner, ignoring case.
    text: str = ""
    # Slug of the site where the endpoint was last seen.
    site: str = ""
    seen_since: datetime | None = None
    random: bool | None = None

    def build_clauses(self, tenant_id: TenantId, each: Any = Endpoint) -> list[ColumnElement[bool]]:  # noqa: ANN401
        """Return the SQL conditions of this filter. `each` is Endpoint or an alias of Endpoint."""
        conditions: list[ColumnElement[bool]] = []
        if self.macs:
            conditions.append(in_array(each.mac, self.macs))
        if self.statuses:
            conditions.append(each.status.in_(self.statuses))
        if self.group:
            conditions.append(_in_group_clause(each, self.group))
        if self.vendor:
            conditions.append(each.vendor.icontains(self.vendor, autoescape=True))
        if self.profile:
            conditions.append(func.coalesce(func.nullif(each.set_profile, ""), each.found_profile) == self.profile)
        if self.text:
            conditions.append(contains_text(self.text, each.name, each.owner))
        if self.site:
            at = select(Site.id).where(Site.tenant_id == tenant_id, Site.slug == self.site).scalar_subquery()
            conditions.append(_seen_clause(tenant_id, each, EndpointSighting.site_id == at))
        if self.seen_since is not None:
            conditions.append(_seen_clause(tenant_id, each, EndpointSighting.last_seen_at >= self.seen_since))
        if self.random is not None:
            conditions.append(random_mac_clause(each.mac) if self.random else ~random_mac_clause(each.mac))
        return conditions


def _seen_clause(tenant_id: TenantId, each: Any, so: ColumnElement[bool]) -> ColumnElement[bool]:  # noqa: ANN401
    """Return the SQL condition for endpoints whose sighting matches `so`.

    PostgreSQL looks up the sighting of each endpoint by key. With a join, PostgreSQL would compare all pairs of
    endpoints and sightings (ADR 0014).
    """
    last = select(true()).where(EndpointSighting.tenant_id == tenant_id, EndpointSighting.mac == each.mac, so)
    return func.coalesce(last.limit(1).correlate(each).scalar_subquery(), false())


def _in_group_clause(each: Any, name: str) -> ColumnElement[bool]:  # noqa: ANN401
    member = EndpointGroupMember.endpoint_id == each.id
    of_group = EndpointGroup.id == EndpointGroupMember.group_id, EndpointGroup.name == name
    if each is Endpoint:
        return exists().where(member, *of_group)
    # Subquery, so that PostgreSQL looks up the membership of each endpoint by key (ADR 0014).
    found = select(true()).select_from(EndpointGroupMember).join(EndpointGroup, of_group[0])
    return func.coalesce(found.where(member, of_group[1]).limit(1).correlate(each).scalar_subquery(), false())


def get_by_mac(session: Session, tenant_id: TenantId, mac: str, *, lock: bool = False) -> Endpoint | None:
    query = select(Endpoint).where(Endpoint.tenant_id == tenant_id, Endpoint.mac == mac)
    if lock:
        query = query.with_for_update().execution_options(populate_existing=True)
    return session.scalar(query)


def delete_sightings(session: Session, tenant_id: TenantId, mac: str) -> None:
    """Delete the sightings and the evidence of a deleted endpoint."""
    for table in (EndpointSighting, EndpointEvidence):
        session.execute(delete(table).where(table.tenant_id == tenant_id, table.mac == mac))


def delete_endpoints(session: Session, tenant_id: TenantId, macs: Sequence[str]) -> None:
    """Delete endpoints with their sightings and evidence."""
    for start in range(0, len(macs), _DELETE_BATCH):
        part = macs[start : start + _DELETE_BATCH]
        for table in (Endpoint, EndpointSighting, EndpointEvidence):
            gone = delete(table).where(table.tenant_id == tenant_id, table.mac.in_(part))
            session.execute(gone, execution_options={"synchronize_session": False})
    session.expire_all()


def list_page(
    session: Session, tenant_id: TenantId, wanted: EndpointCriteria, *, span: PageSpan, lock: bool = False
) -> Sequence[EndpointWithSighting]:
    """Return endpoints with their sightings."""
    query = select(Endpoint, EndpointSighting).outerjoin(EndpointSighting, _SIGHTING_JOIN)
    query = span.of(query.where(Endpoint.tenant_id == tenant_id, *wanted.build_clauses(tenant_id)))
    if lock:
        query = query.with_for_update(of=Endpoint).execution_options(populate_existing=True)
    with nullcontext() if _is_selective(session, tenant_id, wanted) else force_index_order(session):
        return [(endpoint, sighting) for endpoint, sighting in session.execute(query).all()]


def list_views(
    session: Session, tenant_id: TenantId, wanted: EndpointCriteria, *, span: PageSpan
) -> Sequence[EndpointView]:
    query = span.of(_VIEW_QUERY.where(Endpoint.tenant_id == tenant_id, *wanted.build_clauses(tenant_id)))
    with nullcontext() if _is_selective(session, tenant_id, wanted) else force_index_order(session):
        return [EndpointView._make(row) for row in session.execute(query).all()]


def search_endpoints(
    session: Session, tenant_id: TenantId, wanted: EndpointCriteria, *, span: PageSpan
) -> BoundedPage[EndpointWithSighting]:
    """Return endpoints with their sightings. Reads only a bounded number of rows, so the page can be incomplete."""
    if _is_selective(session, tenant_id, wanted):
        return BoundedPage(list_page(session, tenant_id, wanted, span=span), None)
    whose = [Endpoint.tenant_id == tenant_id]
    found = search_bounded(session, Endpoint, whose, lambda each: wanted.build_clauses(tenant_id, each), span)
    seen = _sightings_by_mac(session, tenant_id, [endpoint.mac for endpoint in found.rows])
    return BoundedPage([(endpoint, seen.get(endpoint.mac)) for endpoint in found.rows], found.searched)


def search_views(
    session: Session, tenant_id: TenantId, wanted: EndpointCriteria, *, span: PageSpan
) -> BoundedPage[EndpointView]:
    """Search like `search_endpoints`, but return only the columns that lists of endpoints show."""
    if wanted == EndpointCriteria() or wanted.macs:
        return BoundedPage(list_views(session, tenant_id, wanted, span=span), None)
    found = search_endpoints(session, tenant_id, wanted, span=span)
    return BoundedPage([_build_view(*listed) for listed in found.rows], found.searched)


def _build_view(endpoint: Endpoint, sighting: EndpointSighting | None) -> EndpointView:
    columns = (getattr(endpoint, name) for name in _EndpointColumns._fields[:-2])
    return EndpointView._make((*columns, sighting and sighting.last_seen_at, endpoint.psk_sealed is not None))


def _sightings_by_mac(session: Session, tenant_id: TenantId, macs: Sequence[str]) -> Mapping[str, EndpointSighting]:
    """Return sightings by MAC address. PostgreSQL looks up each sighting by key, so that it does not read all sightings
    of the tenant (ADR 0014)."""
    wanted = func.unnest(cast(list(macs), ARRAY(Endpoint.mac.type))).table_valued("mac").render_derived("wanted")
    of_mac = select(EndpointSighting).where(
        EndpointSighting.tenant_id == tenant_id, EndpointSighting.mac == wanted.c.mac
    )
    each = of_mac.limit(1).lateral()
    query = select(aliased(EndpointSighting, each)).select_from(wanted).join(each, true())
    return {seen.mac: seen for seen in session.scalars(query)}


def _is_selective(session: Session, tenant_id: TenantId, wanted: EndpointCriteria) -> bool:
    """Return whether an index finds the matching endpoints, and there are so few that PostgreSQL sorts them quickly."""
    if wanted.macs:
        return True
    if wanted.group:
        of_group = select(EndpointGroup.id).where(EndpointGroup.tenant_id == tenant_id)
        group = of_group.where(EndpointGroup.name == wanted.group).scalar_subquery()
        query = select(EndpointGroupMember.endpoint_id).where(EndpointGroupMember.group_id == group)
    elif wanted.statuses == ("discovered",):
        query = select(Endpoint.id).where(Endpoint.tenant_id == tenant_id, Endpoint.status == "discovered")
    else:
        return False
    return session.scalar(query.offset(_SELECTIVE_LIMIT).limit(1)) is None


def lock_by_macs(session: Session, tenant_id: TenantId, macs: Collection[str]) -> dict[str, Endpoint]:
    """Lock and return the existing endpoints with these MAC addresses, by MAC address.

    To avoid deadlocks, all transactions lock endpoints in the order of their MAC addresses.
    """
    query = select(Endpoint).where(Endpoint.tenant_id == tenant_id, Endpoint.mac.in_(macs)).order_by(Endpoint.mac)
    query = query.with_for_update().execution_options(populate_existing=True)
    return {endpoint.mac: endpoint for endpoint in session.scalars(query)}


def list_evidence(session: Session, tenant_id: TenantId, mac: str) -> Sequence[EndpointEvidence]:
    query = select(EndpointEvidence).where(EndpointEvidence.tenant_id == tenant_id, EndpointEvidence.mac == mac)
    return session.scalars(query.order_by(EndpointEvidence.source, EndpointEvidence.key)).all()
