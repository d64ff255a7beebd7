from collections.abc import Collection, Mapping, Sequence
from typing import Any
from uuid import UUID

from sqlalchemy import (
    ARRAY,
    ColumnElement,
    Text,
    Uuid,
    bindparam,
    delete,
    exists,
    insert,
    literal_column,
    or_,
    select,
    text,
)
from sqlalchemy.orm import Session

from nac.core.access.grants import Owner
from nac.kit.db.queries import contains_text, in_array
from nac.kit.db.sort_orders import PageSpan, SortOrders
from nac.kit.ids import TenantId
from nac.models import CustomRole, Membership, MembershipTenant, Person, Tenant

MemberRow = tuple[Membership, Person, CustomRole | None]
# No order sorts by name, because the name of a member is hidden until the member has signed in.
ORDERS = SortOrders(
    {
        "id": (Membership.id,),
        "email": (Person.email, Membership.id),
        "created_at": (Membership.created_at, Membership.id),
    }
)
_ABLE = text("SELECT person_id FROM able_to_sign_in(:people, :msp, :tenant)").bindparams(
    bindparam("people", type_=ARRAY(Uuid())), bindparam("msp", type_=Uuid()), bindparam("tenant", type_=Uuid())
)
_SIGN_IN_NEEDED = literal_column("wanted_of_member(memberships)", Text())
_ACCEPT = text("SELECT accept_memberships(:wanted)").bindparams(bindparam("wanted", type_=ARRAY(Uuid())))


def list_for_person(session: Session, person_id: UUID) -> Sequence[tuple[Membership, CustomRole | None, Any]]:
    """Return the person's memberships, each with its custom role.

    The third value is the kind of sign-in that the tenant, MSP or platform of the membership requires. Needs
    PersonScope.
    """
    query = select(Membership, CustomRole, _SIGN_IN_NEEDED).outerjoin(
        CustomRole, CustomRole.id == Membership.custom_role_id
    )
    query = query.where(Membership.person_id == person_id).order_by(Membership.id)
    return [(row[0], row[1], row[2]) for row in session.execute(query.execution_options(populate_existing=True))]


def list_page(session: Session, owner: Owner, *, span: PageSpan, text: str, role: str) -> Sequence[MemberRow]:
    query = (
        select(Membership, Person, CustomRole)
        .join(Person, Person.id == Membership.person_id)
        .outerjoin(CustomRole, CustomRole.id == Membership.custom_role_id)
        .where(owner.owns(Membership))
    )
    if text:
        query = query.where(contains_text(text, Person.email))
    if role:
        query = query.where(or_(Membership.role == role, CustomRole.slug == role))
    query = span.of(query).execution_options(populate_existing=True)
    return [(row[0], row[1], row[2]) for row in session.execute(query)]


def get(session: Session, owner: Owner, membership_id: UUID) -> MemberRow | None:
    return _get(session, owner, Membership.id == membership_id)


def get_by_email(session: Session, owner: Owner, email: str) -> MemberRow | None:
    return _get(session, owner, Person.email == email)


def _get(session: Session, owner: Owner, which: ColumnElement[bool]) -> MemberRow | None:
    query = (
        select(Membership, Person, CustomRole)
        .join(Person, Person.id == Membership.person_id)
        .outerjoin(CustomRole, CustomRole.id == Membership.custom_role_id)
        .where(owner.owns(Membership), which)
    )
    row = session.execute(query.execution_options(populate_existing=True)).one_or_none()
    return None if row is None else (row[0], row[1], row[2])


def lock_all(session: Session, owner: Owner) -> Sequence[tuple[Membership, CustomRole | None]]:
    """Lock and return all memberships of the owner (tenant, MSP or platform), ordered by id."""
    rows = session.scalars(
        select(Membership)
        .where(owner.owns(Membership))
        .order_by(Membership.id)
        .with_for_update()
        .execution_options(populate_existing=True)
    ).all()
    roles = {role.id: role for role in session.scalars(select(CustomRole).where(owner.owns(CustomRole)))}
    return [(row, roles.get(row.custom_role_id) if row.custom_role_id else None) for row in rows]


def filter_able_to_sign_in(session: Session, owner: Owner, person_ids: Collection[UUID]) -> Collection[UUID]:
    """Return the ids of those members in `person_ids` whose account is enabled and who can sign in."""
    if not person_ids:
        return ()
    asked = {"people": list(person_ids), "msp": owner.msp_id, "tenant": owner.tenant_id}
    return frozenset(session.scalars(_ABLE, asked))


def accept_memberships(session: Session, membership_ids: Sequence[UUID]) -> None:
    """Mark memberships of one person as accepted. Needs PersonScope of this person."""
    session.execute(_ACCEPT, {"wanted": list(membership_ids)})


def list_chosen_tenants(session: Session, membership_ids: Collection[UUID]) -> Mapping[UUID, frozenset[TenantId]]:
    query = select(MembershipTenant).where(in_array(MembershipTenant.membership_id, membership_ids))
    found: dict[UUID, set[TenantId]] = {each: set() for each in membership_ids}
    for row in session.scalars(query.execution_options(populate_existing=True)):
        found[row.membership_id].add(row.tenant_id)
    return {key: frozenset(tenants) for key, tenants in found.items()}


def update_chosen_tenants(session: Session, membership_id: UUID, tenant_ids: Collection[TenantId]) -> None:
    session.execute(delete(MembershipTenant).where(MembershipTenant.membership_id == membership_id))
    rows = [{"membership_id": membership_id, "tenant_id": tenant_id} for tenant_id in sorted(tenant_ids)]
    if rows:
        session.execute(insert(MembershipTenant), rows)


def tenants_by_slug(session: Session, owner: Owner, slugs: Collection[str]) -> Mapping[str, TenantId]:
    query = select(Tenant.slug, Tenant.id).where(Tenant.msp_id == owner.msp_id, Tenant.slug.in_(slugs))
    return {row.slug: row.id for row in session.execute(query)}


def get_custom_role(session: Session, owner: Owner, slug: str, *, lock: bool = False) -> CustomRole | None:
    query = select(CustomRole).where(owner.owns(CustomRole), CustomRole.slug == slug)
    if lock:
        query = query.with_for_update()
    return session.scalar(query.execution_options(populate_existing=True))


def list_custom_roles(session: Session, owner: Owner) -> Sequence[CustomRole]:
    query = select(CustomRole).where(owner.owns(CustomRole)).order_by(CustomRole.slug)
    return session.scalars(query.execution_options(populate_existing=True)).all()


def has_role_members(session: Session, role: CustomRole) -> bool:
    return bool(session.scalar(select(exists().where(Membership.custom_role_id == role.id))))
