"""Custom roles. The owner of a custom role is an MSP or a tenant. All functions need the owner's database scope."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from sqlalchemy.orm import Session

from nac.accounts.api_tokens import parse_permissions
from nac.accounts.members import repository
from nac.accounts.members import service as members
from nac.accounts.roles import BUILT_IN_ROLES
from nac.accounts.sign_ons import service
from nac.core.access.grants import Owner, require_may_grant
from nac.core.audit import service as audit
from nac.kit.db import lock_quota
from nac.kit.db.sort_orders import PageSpan, PlainRow, SortOrders
from nac.kit.errors import AlreadyExists, Conflict, InUse, InvalidInput, NotFound
from nac.kit.permissions import Permission, permissions_at
from nac.kit.validation import require_name, require_slug
from nac.models import CustomRole

MAX_ROLES_PER_OWNER = 100


ORDERS = SortOrders({"slug": (CustomRole.slug,), "name": (CustomRole.name, CustomRole.slug)})


class RoleNotFound(NotFound):
    """The role does not exist."""


@dataclass(frozen=True, slots=True)
class AssignableRole(PlainRow):
    """A built-in or custom role."""

    slug: str
    name: str
    permissions: Sequence[str]
    own: bool


def create_role(
    session: Session,
    *,
    actor: str,
    held: Collection[Permission],
    owner: Owner,
    slug: str,
    name: str,
    permissions: Iterable[str],
) -> CustomRole:
    require_slug(slug)
    if slug in BUILT_IN_ROLES or repository.get_custom_role(session, owner, slug):
        raise AlreadyExists(f"Role {slug!r} already exists.", place="slug")
    lock_quota(session, "roles", owner)
    if len(repository.list_custom_roles(session, owner)) >= MAX_ROLES_PER_OWNER:
        raise Conflict(f"The limit of {MAX_ROLES_PER_OWNER} roles is reached.", remedy="Remove unused roles.")
    wanted = _require_permissions(owner, held, permissions)
    role = CustomRole(slug=slug, name=require_name(name), permissions=sorted(wanted), **owner.columns())
    session.add(role)
    session.flush()
    audit.append(session, actor=actor, action="role.create", target=slug, after=_audit_values(role), **owner.columns())
    return role


def update_role(
    session: Session,
    *,
    actor: str,
    held: Collection[Permission],
    owner: Owner,
    slug: str,
    name: str | None = None,
    permissions: Iterable[str] | None = None,
) -> CustomRole:
    """Change a role.

    The members with this role get the new permissions immediately. None for `name` or `permissions` leaves the current
    value unchanged. Raises LastManager.
    """
    # Lock the memberships first and the role second, in the same order as `update_member`.
    managers = members.lock_managers(session, owner=owner)
    role = require_by_slug(session, owner=owner, slug=slug, lock=True)
    before = _audit_values(role)
    # A caller must not remove a permission that they do not have.
    require_may_grant(held, parse_permissions(role.permissions))
    if name is not None:
        role.name = require_name(name)
    if permissions is not None:
        role.permissions = sorted(_require_permissions(owner, held, permissions))
        if Permission.MEMBER_MANAGE not in role.permissions:
            managers.require_without_role(role.id)
    session.flush()
    if before != _audit_values(role):
        after = _audit_values(role)
        audit.append(
            session, actor=actor, action="role.change", target=slug, before=before, after=after, **owner.columns()
        )
    return role


def delete_role(session: Session, *, actor: str, held: Collection[Permission], owner: Owner, slug: str) -> None:
    """Delete a role. Raises InUse if a member has the role, or if the single sign-on assigns the role."""
    role = require_by_slug(session, owner=owner, slug=slug, lock=True)
    require_may_grant(held, parse_permissions(role.permissions))
    if service.gives_role(session, owner, slug):
        raise InUse(
            f"The single sign-on assigns the role {slug!r}.",
            place="role",
            remedy="Remove the role from `joins` of the single sign-on first.",
        )
    if repository.has_role_members(session, role):
        raise InUse(f"Some members have the role {slug!r}.", remedy="Assign another role to these members first.")
    session.delete(role)
    session.flush()
    audit.append(session, actor=actor, action="role.remove", target=slug, before=_audit_values(role), **owner.columns())


def require_by_slug(session: Session, *, owner: Owner, slug: str, lock: bool = False) -> CustomRole:
    role = repository.get_custom_role(session, owner, slug, lock=lock)
    if role is None:
        raise RoleNotFound(f"Unknown role {slug!r}.", place="role")
    return role


def list_roles(session: Session, *, owner: Owner) -> Sequence[CustomRole]:
    return repository.list_custom_roles(session, owner)


def list_page(
    session: Session, *, owner: Owner, span: PageSpan, text: str = "", own: bool | None = None
) -> Sequence[AssignableRole]:
    """List roles that can be assigned. `text` is a part of the slug or name.

    `own` selects only custom roles (True), only built-in roles (False) or all roles (None).
    """
    theirs = [_from_custom_role(row) for row in repository.list_custom_roles(session, owner)]
    wanted = text.casefold()
    fit = [
        each
        for each in (*_built_in_roles(owner), *theirs)
        if wanted in each.slug.casefold() or wanted in each.name.casefold()
    ]
    return span.cut(each for each in fit if own in (None, each.own))


def require_assignable_role(session: Session, *, owner: Owner, slug: str) -> AssignableRole:
    """Return the role `slug`, built-in or custom. Raises RoleNotFound."""
    ours = (role for role in _built_in_roles(owner) if role.slug == slug)
    return next(ours, None) or _from_custom_role(require_by_slug(session, owner=owner, slug=slug))


def _built_in_roles(owner: Owner) -> Sequence[AssignableRole]:
    level = owner.level
    return [
        AssignableRole(role.slug, role.name, sorted(role.at(level)), False)
        for role in BUILT_IN_ROLES.values()
        if level in role.levels
    ]


def _from_custom_role(row: CustomRole) -> AssignableRole:
    return AssignableRole(row.slug, row.name, row.permissions, True)


def _require_permissions(owner: Owner, held: Collection[Permission], names: Iterable[str]) -> frozenset[Permission]:
    wanted = parse_permissions(names)
    above = sorted(wanted - permissions_at(owner.level))
    if above:
        raise InvalidInput(
            f"A role at this level cannot have these permissions: {', '.join(above)}.",
            place="permissions",
            remedy="Remove these permissions.",
        )
    require_may_grant(held, wanted)
    return wanted


def _audit_values(role: CustomRole) -> dict[str, object]:
    return {"name": role.name, "permissions": list(role.permissions)}
