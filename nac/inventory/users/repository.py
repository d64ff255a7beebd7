from collections.abc import Collection
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from sqlalchemy import ARRAY, ColumnElement, Text, exists, func, literal, select
from sqlalchemy.orm import Session

from nac.kit.db.queries import BoundedPage, search_bounded
from nac.kit.db.sort_orders import PageSpan, SortOrders
from nac.kit.ids import TenantId
from nac.models import User, UserGroup, UserGroupMember

# Tenants have hundreds of thousands of users, so each order has an index.
ORDERS = SortOrders({"name": (User.name,), "created_at": (User.created_at, User.name)})


@dataclass(frozen=True, slots=True, kw_only=True)
class UserFilter:
    """Filter for a list of users. Empty fields match all users."""

    # The case-folded name (`fold_name`).
    name: str = ""
    # Part of the name, ignoring case.
    text: str = ""
    group: str = ""
    disabled: bool | None = None


def get_by_name(session: Session, tenant_id: TenantId, name: str, *, lock: bool = False) -> User | None:
    query = select(User).where(User.tenant_id == tenant_id, User.name == name)
    return session.scalar(query.with_for_update() if lock else query)


def get_by_id(session: Session, tenant_id: TenantId, user_id: UUID, *, lock: bool = False) -> User | None:
    query = select(User).where(User.tenant_id == tenant_id, User.id == user_id)
    return session.scalar(query.with_for_update() if lock else query)


def lock_names(session: Session, tenant_id: TenantId, names: Collection[str]) -> dict[str, User]:
    """Lock and return the existing users with these names. To avoid deadlocks, always locks in the order of names."""
    wanted = func.any(literal(list(names), ARRAY(Text())))
    query = select(User).where(User.tenant_id == tenant_id, User.name == wanted).order_by(User.name)
    query = query.with_for_update().execution_options(populate_existing=True)
    return {user.name: user for user in session.scalars(query)}


def search_users(session: Session, tenant_id: TenantId, wanted: UserFilter, *, span: PageSpan) -> BoundedPage[User]:
    def build_conditions(each: Any) -> list[ColumnElement[bool]]:  # noqa: ANN401 -- users, or an alias of them
        conditions: list[ColumnElement[bool]] = []
        if wanted.group:
            in_group = UserGroupMember.user_id == each.id, UserGroup.id == UserGroupMember.group_id
            conditions.append(exists().where(*in_group, UserGroup.name == wanted.group))
        if wanted.text:
            conditions.append(each.name.icontains(wanted.text, autoescape=True))
        if wanted.disabled is not None:
            conditions.append(each.disabled.is_(wanted.disabled))
        return conditions

    whose = [User.tenant_id == tenant_id, *([User.name == wanted.name] if wanted.name else ())]
    if wanted.group:
        # PostgreSQL finds the members of the group with an index, so the search needs no limit.
        return BoundedPage(session.scalars(span.of(select(User).where(*whose, *build_conditions(User)))).all(), None)
    return search_bounded(session, User, whose, build_conditions, span)
