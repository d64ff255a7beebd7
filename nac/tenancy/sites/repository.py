from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from nac.kit.db.conditions import contains_text
from nac.kit.db.sort_orders import PageSpan, SortOrders
from nac.kit.ids import TenantId
from nac.models import Nas, Pool, RadiusSession, Site

ORDERS = SortOrders({"slug": (Site.slug,), "name": (Site.name, Site.slug), "time_zone": (Site.time_zone, Site.slug)})


def get_by_slug(session: Session, tenant_id: TenantId, slug: str) -> Site | None:
    return session.scalar(select(Site).where(Site.tenant_id == tenant_id, Site.slug == slug))


def list_all(session: Session, tenant_id: TenantId) -> Sequence[Site]:
    return session.scalars(select(Site).where(Site.tenant_id == tenant_id).order_by(Site.slug)).all()


def list_page(
    session: Session, tenant_id: TenantId, *, span: PageSpan, text: str, policy_id: UUID | None
) -> Sequence[Site]:
    query = select(Site).where(Site.tenant_id == tenant_id)
    if text:
        query = query.where(contains_text(text, Site.slug, Site.name))
    if policy_id is not None:
        query = query.where(Site.policy_id == policy_id)
    return session.scalars(span.of(query)).all()


def count_nases(session: Session, tenant_id: TenantId, site_id: UUID) -> int:
    query = select(func.count()).where(Nas.tenant_id == tenant_id, Nas.site_id == site_id)
    return session.scalars(query).one()


def count_pools(session: Session, tenant_id: TenantId, site_id: UUID) -> int:
    query = select(func.count()).where(Pool.tenant_id == tenant_id, Pool.site_id == site_id)
    return session.scalars(query).one()


def count_live_sessions(session: Session, tenant_id: TenantId, site_id: UUID, *, heard_since: datetime) -> int:
    query = select(func.count()).where(
        RadiusSession.tenant_id == tenant_id,
        RadiusSession.site_id == site_id,
        RadiusSession.stopped_at.is_(None),
        RadiusSession.updated_at >= heard_since,
    )
    return session.scalars(query).one()
