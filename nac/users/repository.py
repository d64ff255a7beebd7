from collections.abc import Collection, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import ARRAY, Text, exists, func, literal, select
from sqlalchemy.orm import Session

from nac.db import by_order
from nac.db.orders import Orders, Span
from nac.ids import TenantId
from nac.models import User, UserGroup, UserGroupMember

# Of hundreds of thousands: an index has each of these.
ORDERS = Orders({"name": (User.name,), "created_at": (User.created_at, User.name)})


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """What is asked of a list of users; what is empty asks nothing."""

    # As it is stored.
    name: str = ""
    # A part of the name, in any case.
    text: str = ""
    group: str = ""
    disabled: bool | None = None


def get_by_name(session: Session, tenant_id: TenantId, name: str) -> User | None:
    return session.scalar(select(User).where(User.tenant_id == tenant_id, User.name == name))


def get_by_id(session: Session, tenant_id: TenantId, user_id: UUID, *, lock: bool = False) -> User | None:
    query = select(User).where(User.tenant_id == tenant_id, User.id == user_id)
    return session.scalar(query.with_for_update() if lock else query)


def lock_names(session: Session, tenant_id: TenantId, names: Collection[str]) -> dict[str, User]:
    """Those that there are, locked in the order of their names, as whoever locks several does."""
    wanted = func.any(literal(list(names), ARRAY(Text())))
    query = select(User).where(User.tenant_id == tenant_id, User.name == wanted).order_by(User.name)
    query = query.with_for_update().execution_options(populate_existing=True)
    return {user.name: user for user in session.scalars(query)}


def list_page(session: Session, tenant_id: TenantId, wanted: Filter, *, span: Span) -> Sequence[User]:
    query = span.of(select(User).where(User.tenant_id == tenant_id))
    if wanted.name:
        query = query.where(User.name == wanted.name)
    if wanted.text:
        query = query.where(User.name.icontains(wanted.text, autoescape=True))
    if wanted.group:
        of_group = exists().where(
            UserGroupMember.user_id == User.id,
            UserGroup.id == UserGroupMember.group_id,
            UserGroup.name == wanted.group,
        )
        query = query.where(of_group)
    if wanted.disabled is not None:
        query = query.where(User.disabled.is_(wanted.disabled))
    # By name and by group there are few.
    with nullcontext() if wanted.name or wanted.group else by_order(session):
        return session.scalars(query).all()
