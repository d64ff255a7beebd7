from collections.abc import Sequence

from sqlalchemy import select
from sqlalchemy.orm import Session

from nac.ids import TenantId
from nac.models import Nas


def list_all(session: Session, tenant_id: TenantId) -> Sequence[Nas]:
    return session.scalars(select(Nas).where(Nas.tenant_id == tenant_id).order_by(Nas.name, Nas.id)).all()


def get_by_identifier(session: Session, tenant_id: TenantId, identifier: str) -> Nas | None:
    return session.scalar(select(Nas).where(Nas.tenant_id == tenant_id, Nas.identifier == identifier))


def get_by_address(session: Session, tenant_id: TenantId, address: str) -> Nas | None:
    return session.scalar(select(Nas).where(Nas.tenant_id == tenant_id, Nas.address == address))


def find_by_name(session: Session, tenant_id: TenantId, name: str) -> Sequence[Nas]:
    return session.scalars(select(Nas).where(Nas.tenant_id == tenant_id, Nas.name == name)).all()
