from collections.abc import Sequence

from sqlalchemy import select
from sqlalchemy.orm import Session

from nac.kit.db.conditions import contains_text
from nac.kit.db.sort_orders import PageSpan, SortOrders
from nac.kit.ids import TenantId
from nac.models import IdentitySource

_NAME = IdentitySource.name
ORDERS = SortOrders(
    {"position": (IdentitySource.position, _NAME), "name": (_NAME,), "kind": (IdentitySource.kind, _NAME)}
)


def get_by_name(session: Session, tenant_id: TenantId, name: str) -> IdentitySource | None:
    return session.scalar(
        select(IdentitySource).where(IdentitySource.tenant_id == tenant_id, IdentitySource.name == name)
    )


def list_all(session: Session, tenant_id: TenantId) -> Sequence[IdentitySource]:
    query = select(IdentitySource).where(IdentitySource.tenant_id == tenant_id)
    return session.scalars(query.order_by(IdentitySource.position, IdentitySource.name)).all()


def list_page(
    session: Session, tenant_id: TenantId, *, span: PageSpan, text: str, kind: str, enabled: bool | None
) -> Sequence[IdentitySource]:
    query = select(IdentitySource).where(IdentitySource.tenant_id == tenant_id)
    if text:
        query = query.where(contains_text(text, IdentitySource.name))
    if kind:
        query = query.where(IdentitySource.kind == kind)
    if enabled is not None:
        query = query.where(IdentitySource.enabled == enabled)
    return session.scalars(span.of(query)).all()
