from collections.abc import Sequence

from sqlalchemy import exists, select
from sqlalchemy.orm import Session

from nac.core.access.owners import Owner
from nac.models import CustomRole, Membership


def get_by_slug(session: Session, owner: Owner, slug: str, *, lock: bool = False) -> CustomRole | None:
    query = select(CustomRole).where(owner.owns(CustomRole), CustomRole.slug == slug)
    if lock:
        query = query.with_for_update()
    return session.scalar(query.execution_options(populate_existing=True))


def list_all(session: Session, owner: Owner) -> Sequence[CustomRole]:
    query = select(CustomRole).where(owner.owns(CustomRole)).order_by(CustomRole.slug)
    return session.scalars(query.execution_options(populate_existing=True)).all()


def has_members(session: Session, role: CustomRole) -> bool:
    return bool(session.scalar(select(exists().where(Membership.custom_role_id == role.id))))
