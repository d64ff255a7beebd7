from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import select
from sqlalchemy.orm import Session

from nac.kit.db.queries import contains_text
from nac.kit.db.sort_orders import PageSpan, SortOrders
from nac.kit.ids import TenantId
from nac.models import Nas, Site

ORDERS = SortOrders(
    {
        "name": (Nas.name, Nas.id),
        "identifier": (Nas.identifier, Nas.id),
        "address": (Nas.address, Nas.id),
        "vendor": (Nas.vendor, Nas.id),
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class NasFilter:
    """Filter of NASes. An empty field matches all NASes."""

    # Slug of the site.
    site: str = ""
    vendor: str = ""
    # Part of the name or identifier. Case is ignored.
    text: str = ""
    address: str = ""


def list_all(session: Session, tenant_id: TenantId) -> Sequence[Nas]:
    return session.scalars(select(Nas).where(Nas.tenant_id == tenant_id).order_by(Nas.name, Nas.id)).all()


def get_by_identifier(session: Session, tenant_id: TenantId, identifier: str) -> Nas | None:
    return session.scalar(select(Nas).where(Nas.tenant_id == tenant_id, Nas.identifier == identifier))


def get_by_address(session: Session, tenant_id: TenantId, address: str) -> Nas | None:
    return session.scalar(select(Nas).where(Nas.tenant_id == tenant_id, Nas.address == address))


def find_by_name(session: Session, tenant_id: TenantId, name: str) -> Sequence[Nas]:
    return session.scalars(select(Nas).where(Nas.tenant_id == tenant_id, Nas.name == name)).all()


def get_by_id(session: Session, tenant_id: TenantId, nas_id: UUID) -> Nas | None:
    return session.scalar(select(Nas).where(Nas.tenant_id == tenant_id, Nas.id == nas_id))


def lock_all(session: Session, tenant_id: TenantId) -> Sequence[Nas]:
    """Lock all NASes of the tenant in the order that nac.core.locking describes."""
    query = select(Nas).where(Nas.tenant_id == tenant_id).order_by(Nas.id).with_for_update()
    return session.scalars(query.execution_options(populate_existing=True)).all()


def list_page(session: Session, tenant_id: TenantId, wanted: NasFilter, *, span: PageSpan) -> Sequence[Nas]:
    query = span.of(select(Nas).where(Nas.tenant_id == tenant_id))
    if wanted.site:
        at = select(Site.id).where(Site.tenant_id == tenant_id, Site.slug == wanted.site).scalar_subquery()
        query = query.where(Nas.site_id == at)
    if wanted.vendor:
        query = query.where(Nas.vendor == wanted.vendor)
    if wanted.text:
        query = query.where(contains_text(wanted.text, Nas.name, Nas.identifier))
    if wanted.address:
        query = query.where(Nas.address == wanted.address)
    return session.scalars(query).all()
