"""Members: people with a role on a tenant, an MSP or the platform (the owner of the membership).

Functions need the database scope of the owner, unless their docstring names another scope.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from uuid import UUID

from psycopg.errors import UniqueViolation
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from nac.accounts.members import repository
from nac.accounts.members.repository import ORDERS as ORDERS
from nac.accounts.people import service as people
from nac.accounts.roles import BUILT_IN_ROLES
from nac.core.access.grants import Grant, Owner, TenantRef, require_may_grant
from nac.core.audit import service as audit
from nac.kit.clock import utc_now
from nac.kit.db.sort_orders import PageSpan
from nac.kit.errors import AlreadyExists, Conflict, InvalidInput, NotFound
from nac.kit.ids import MspId, TenantId
from nac.kit.permissions import Permission, PermissionLevel, permissions_at
from nac.models import CustomRole, Membership, Person

__all__ = [
    "LastManager",
    "MemberManagers",
    "MemberNotFound",
    "accept_invitations",
    "create_member",
    "delete_member",
    "get_by_email",
    "list_grants",
    "list_members",
    "lock_managers",
    "lock_managing_people",
    "membership_permissions_at",
    "require_member",
    "require_role",
    "update_member",
]


class MemberNotFound(NotFound):
    """The member does not exist."""


class LastManager(Conflict):
    """This is the last member who can manage members."""


@dataclass(frozen=True, slots=True)
class Member:
    membership: Membership
    # Name and status are hidden until the person has signed in: use `visible_name` and `visible_status`.
    person: Person
    # Slug of a built-in or custom role.
    role: str
    permissions: frozenset[Permission]
    # Those tenants of the MSP that the member can access; None for all tenants of the MSP.
    chosen: frozenset[TenantId] | None

    @property
    def visible_name(self) -> str:
        return self.person.name if self.membership.accepted_at is not None else ""

    @property
    def visible_status(self) -> str:
        """Status of the person's account; `invited` until the person has signed in.

        So the status of an invited person does not reveal whether the person already had an account.
        """
        return self.person.status if self.membership.accepted_at is not None else "invited"


@dataclass(frozen=True, slots=True)
class _ResolvedRole:
    slug: str
    permissions: frozenset[Permission]
    columns: dict[str, object]


def create_member(
    session: Session,
    *,
    actor: str,
    held: Collection[Permission],
    owner: Owner,
    email: str,
    role: str,
    tenants: Iterable[str] | None = None,
    has_come: bool = False,
) -> Member:
    """Add a member. `held` are the caller's permissions.

    `tenants` are slugs of the MSP's tenants that the member can access; None means all tenants. Set `has_come` if the
    callers add themselves as members: the membership then counts as accepted immediately.

    Raises AlreadyExists, InvalidInput and PermissionMissing.
    """
    found = _require_role(session, owner, role)
    require_may_grant(held, found.permissions)
    chosen = _require_tenants(session, owner, tenants)
    membership = Membership(
        person_id=people.get_or_create_person(session, email=email),
        has_chosen=chosen is not None,
        created_by=actor,
        accepted_at=utc_now() if has_come else None,
        **owner.columns(),
        **found.columns,
    )
    try:
        with session.begin_nested():
            session.add(membership)
    except IntegrityError as exc:
        if not isinstance(exc.orig, UniqueViolation):
            raise
        raise AlreadyExists(f"{email.strip().lower()} is already a member.", place="email") from exc
    repository.update_chosen_tenants(session, membership.id, chosen or ())
    member = require_member(session, owner=owner, membership_id=membership.id)
    _audit(session, actor, owner, member, "add", after=_audit_values(member))
    return member


def update_member(
    session: Session,
    *,
    actor: str,
    held: Collection[Permission],
    owner: Owner,
    membership_id: UUID,
    role: str,
    tenants: Iterable[str] | None = None,
    keeps_tenants: bool = False,
) -> Member:
    """Change the role and the tenants of a member. `keeps_tenants` leaves the tenants unchanged.

    `held` are the caller's permissions. They must include the member's current and new permissions. Raises LastManager,
    MemberNotFound, InvalidInput and PermissionMissing.
    """
    # Lock memberships first: otherwise another request could change the permissions of a custom role meanwhile.
    managers = lock_managers(session, owner=owner)
    found = _require_role(session, owner, role)
    before = require_member(session, owner=owner, membership_id=membership_id)
    chosen = before.chosen if keeps_tenants else _require_tenants(session, owner, tenants)
    if Permission.MEMBER_MANAGE not in found.permissions or chosen is not None:
        managers.require_without({membership_id})
    require_may_grant(held, before.permissions | found.permissions)
    row = before.membership
    row.role, row.custom_role_id = None, None
    for name, value in found.columns.items():
        setattr(row, name, value)
    row.has_chosen = chosen is not None
    session.flush()
    repository.update_chosen_tenants(session, row.id, chosen or ())
    after = require_member(session, owner=owner, membership_id=membership_id)
    if _audit_values(before) != _audit_values(after):
        _audit(session, actor, owner, after, "change", before=_audit_values(before), after=_audit_values(after))
    return after


def delete_member(
    session: Session, *, actor: str, held: Collection[Permission], owner: Owner, membership_id: UUID
) -> None:
    """Remove a member. The person's account stays. Raises LastManager and PermissionMissing."""
    lock_managers(session, owner=owner).require_without({membership_id})
    member = require_member(session, owner=owner, membership_id=membership_id)
    require_may_grant(held, member.permissions)
    session.delete(member.membership)
    session.flush()
    _audit(session, actor, owner, member, "remove", before=_audit_values(member))


def list_members(
    session: Session, *, owner: Owner, span: PageSpan | None = None, text: str = "", role: str = ""
) -> Sequence[Member]:
    """List members. `text` is a part of the e-mail address, `role` is a slug."""
    rows = repository.list_page(session, owner, span=span or ORDERS.first(), text=text, role=role)
    chosen = repository.list_chosen_tenants(session, [row[0].id for row in rows if row[0].has_chosen])
    return [_build_member(owner, *row, chosen.get(row[0].id)) for row in rows]


def list_grants(session: Session, *, person_id: UUID) -> tuple[Grant, ...]:
    """Return a grant for each membership of the person. Needs PersonScope."""
    rows = repository.list_for_person(session, person_id)
    chosen = repository.list_chosen_tenants(session, [row.id for row, _, _ in rows if row.has_chosen])
    return tuple(
        Grant(
            _membership_permissions(Owner(row.msp_id, row.tenant_id).level, row, role),
            msp_id=row.msp_id,
            tenant_id=row.tenant_id,
            chosen=chosen.get(row.id),
            new_membership=row.id if row.accepted_at is None else None,
            required_sign_in=wants,
        )
        for row, role, wants in rows
    )


def accept_invitations(
    session: Session, *, grants: Iterable[Grant], tenant: TenantRef | None, msp_id: MspId | None
) -> None:
    """Accept those new memberships in `grants` that give access to this tenant or MSP. Needs PersonScope."""
    new = [
        each.new_membership
        for each in grants
        if each.new_membership is not None
        and (
            each.level is PermissionLevel.PLATFORM
            or (tenant is not None and each.covers_tenant(tenant))
            or (msp_id is not None and each.msp_id == msp_id)
        )
    ]
    if new:
        repository.accept_memberships(session, new)


def _membership_permissions(level: PermissionLevel, row: Membership, role: CustomRole | None) -> frozenset[Permission]:
    return _role_permissions(level, row.role, None if role is None else role.permissions)


def _role_permissions(
    level: PermissionLevel, role: str | None, permissions: Iterable[str] | None
) -> frozenset[Permission]:
    """Return the permissions of a role at a level. `permissions` are those of a custom role; None for a built-in role.

    The result is empty for a built-in role that does not exist in this version of Admit.
    """
    if permissions is not None:
        known = set(Permission)
        return frozenset(Permission(name) for name in permissions if name in known) & permissions_at(level)
    found = BUILT_IN_ROLES.get(role or "")
    return found.at(level) if found is not None else frozenset()


def membership_permissions_at(
    at: Owner,
    *,
    role: str | None,
    permissions: Iterable[str] | None,
    msp_id: str | None,
    tenant_id: str | None,
    has_chosen: bool,
) -> frozenset[Permission]:
    """Return the permissions that a membership gives at the tenant, MSP or platform `at`.

    The keyword arguments describe the membership and its role.
    """
    of = Owner(MspId(UUID(msp_id)) if msp_id else None, TenantId(UUID(tenant_id)) if tenant_id else None)
    chosen = frozenset[TenantId]() if has_chosen else None
    grant = Grant(
        _role_permissions(of.level, role, permissions), msp_id=of.msp_id, tenant_id=of.tenant_id, chosen=chosen
    )
    return grant.permissions if at.msp_id is None else grant.on_msp(at.msp_id)


def _build_member(
    owner: Owner, row: Membership, person: Person, role: CustomRole | None, chosen: frozenset[TenantId] | None
) -> Member:
    slug = role.slug if role is not None else str(row.role)
    return Member(
        row, person, slug, _membership_permissions(owner.level, row, role), chosen if row.has_chosen else None
    )


def require_member(session: Session, *, owner: Owner, membership_id: UUID, lock: bool = False) -> Member:
    """Return the member with this membership id. `lock` locks all memberships of the owner. Raises MemberNotFound."""
    if lock:
        lock_managers(session, owner=owner)
    row = repository.get(session, owner, membership_id)
    if row is None:
        raise MemberNotFound("This member does not exist.", place="member")
    return _build_member(owner, *row, repository.list_chosen_tenants(session, [membership_id])[membership_id])


def get_by_email(session: Session, *, owner: Owner, email: str) -> Member | None:
    row = repository.get_by_email(session, owner, email)
    return None if row is None else _build_member(owner, *row, None)


def _require_role(session: Session, owner: Owner, slug: str, *, lock: bool = False) -> _ResolvedRole:
    built_in = BUILT_IN_ROLES.get(slug)
    if built_in is not None and owner.level in built_in.levels:
        return _ResolvedRole(slug, built_in.at(owner.level), {"role": slug})
    custom = repository.get_custom_role(session, owner, slug, lock=lock)
    if custom is not None:
        row = Membership(custom_role_id=custom.id)
        return _ResolvedRole(slug, _membership_permissions(owner.level, row, custom), {"custom_role_id": custom.id})
    here = sorted(role.slug for role in BUILT_IN_ROLES.values() if owner.level in role.levels)
    raise InvalidInput(
        f"Unknown role {slug!r}.", place="role", remedy=f"Use a custom role, or one of: {', '.join(here)}."
    )


def require_role(session: Session, *, owner: Owner, role: str, tenants: Iterable[str] | None = None) -> None:
    """Check that a member can get this role for these tenants. Locks a custom role until the transaction ends.

    Raises InvalidInput.
    """
    _require_role(session, owner, role, lock=True)
    _require_tenants(session, owner, tenants)


def _require_tenants(session: Session, owner: Owner, slugs: Iterable[str] | None) -> frozenset[TenantId] | None:
    if slugs is None:
        return None
    wanted = set(slugs)
    if owner.level is not PermissionLevel.MSP or not wanted:
        message = (
            "`tenants` is empty. Name a tenant, or omit `tenants` for all tenants."
            if owner.level is PermissionLevel.MSP
            else "Only a membership in an MSP can be limited to tenants."
        )
        raise InvalidInput(message, place="tenants")
    found = repository.tenants_by_slug(session, owner, wanted)
    unknown = sorted(wanted.difference(found))
    if unknown:
        raise InvalidInput(f"Unknown tenant {', '.join(unknown)}.", place="tenants")
    return frozenset(found.values())


@dataclass(frozen=True, slots=True)
class MemberManagers:
    """Memberships whose permissions include the management of members.

    A membership counts only after the person has accepted it, and only while the person can sign in. Invitations do not
    count, because the e-mail address may be wrong.
    """

    # Maps the id of each membership to the id of its custom role; None for a built-in role.
    roles: Mapping[UUID, UUID | None]

    def require_without(self, membership_ids: Collection[UUID]) -> None:
        """Raise LastManager if no member could manage members after these memberships were removed."""
        if self.roles and self.roles.keys() <= set(membership_ids):
            raise LastManager(
                remedy="First give another member a role that can manage members. That member must then sign in."
            )

    def require_without_role(self, custom_role_id: UUID) -> None:
        self.require_without([each for each, role_id in self.roles.items() if role_id == custom_role_id])


def lock_managing_people(session: Session, *, owner: Owner) -> Set[UUID]:
    """Lock the owner's memberships.

    Returns the ids of people who can manage members and have accepted the membership.
    """
    return {row.person_id for row in _lock_managing(session, owner)}


def _lock_managing(session: Session, owner: Owner) -> list[Membership]:
    return [
        row
        for row, role in repository.lock_all(session, owner)
        if row.accepted_at is not None
        and not row.has_chosen
        and Permission.MEMBER_MANAGE in _membership_permissions(owner.level, row, role)
    ]


def lock_managers(session: Session, *, owner: Owner) -> MemberManagers:
    """Lock all memberships of the owner, and return those that permit the management of members.

    The result is empty for a tenant. A tenant does not need a member who can manage members, because members of its MSP
    can manage the tenant's members.
    """
    managing = _lock_managing(session, owner)
    if owner.level is PermissionLevel.TENANT:
        return MemberManagers({})
    able = repository.filter_able_to_sign_in(session, owner, [row.person_id for row in managing])
    return MemberManagers({row.id: row.custom_role_id for row in managing if row.person_id in able})


def _audit_values(member: Member) -> dict[str, object]:
    chosen = None if member.chosen is None else sorted(map(str, member.chosen))
    return {"role": member.role, "tenants": chosen}


def _audit(
    session: Session,
    actor: str,
    owner: Owner,
    member: Member,
    verb: str,
    *,
    before: dict[str, object] | None = None,
    after: dict[str, object] | None = None,
) -> None:
    audit.append(
        session,
        actor=actor,
        action=f"member.{verb}",
        target=member.person.email,
        before=before,
        after=after,
        **owner.columns(),
    )
