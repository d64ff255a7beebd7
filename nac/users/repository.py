from collections.abc import Sequence

from sqlalchemy import select
from sqlalchemy.orm import Session

from nac.ids import TenantId
from nac.models import User


def get_by_name(session: Session, tenant_id: TenantId, name: str) -> User | None:
    return session.scalar(select(User).where(User.tenant_id == tenant_id, User.name == name))


def list_page(session: Session, tenant_id: TenantId, *, after_name: str, limit: int) -> Sequence[User]:
    query = select(User).where(User.tenant_id == tenant_id, User.name > after_name).order_by(User.name).limit(limit)
    return session.scalars(query).all()
