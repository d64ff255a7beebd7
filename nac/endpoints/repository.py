from collections.abc import Sequence

from sqlalchemy import select
from sqlalchemy.orm import Session

from nac.ids import TenantId
from nac.models import Endpoint


def get_by_mac(session: Session, tenant_id: TenantId, mac: str) -> Endpoint | None:
    return session.scalar(select(Endpoint).where(Endpoint.tenant_id == tenant_id, Endpoint.mac == mac))


def list_page(session: Session, tenant_id: TenantId, *, after_mac: str, limit: int) -> Sequence[Endpoint]:
    query = select(Endpoint).where(Endpoint.tenant_id == tenant_id).order_by(Endpoint.mac).limit(limit)
    if after_mac:
        query = query.where(Endpoint.mac > after_mac)
    return session.scalars(query).all()
