"""Permissions to apply a template to a tenant: the permissions that changing each part directly requires."""

from collections.abc import Callable, Iterable
from typing import Final

from nac.core.access.grants import PermissionMissing
from nac.kit.ids import TenantId
from nac.kit.permissions import Permission
from nac.models import Tenant

# Returns the caller's permissions at a tenant.
HeldPermissions = Callable[[TenantId], frozenset[Permission]]
# Settings of a site that determine which policy rules apply.
_POLICY_MEMBERS: Final = frozenset({"policy", "monitor", "fallback"})
_READ_PERMISSIONS: Final = {
    Permission.ENDPOINT_MANAGE: Permission.ENDPOINT_READ,
    Permission.USER_MANAGE: Permission.USER_READ,
    Permission.POLICY_MANAGE: Permission.POLICY_READ,
    Permission.SITE_MANAGE: Permission.SITE_READ,
    Permission.TENANT_MANAGE: Permission.TENANT_READ,
}
READ_ALL_PARTS: Final = frozenset(_READ_PERMISSIONS.values())
CHANGE_ALL_PARTS: Final = frozenset(
    {
        *(Permission.ENDPOINT_MANAGE, Permission.USER_MANAGE, Permission.SITE_MANAGE),
        *(Permission.POLICY_MANAGE, Permission.POLICY_PUBLISH, Permission.TENANT_MANAGE),
    }
)


def permissions_for(parts: Iterable[str]) -> frozenset[Permission]:
    """Return the permissions that a caller needs to change `parts` (names as in `document.list_parts`)."""
    return frozenset[Permission]().union(*map(_permissions_for_part, parts))


def _permissions_for_part(part: str) -> set[Permission]:
    kind, _, rest = part.partition(":")
    match kind:
        case "group":
            return {Permission.USER_MANAGE if rest.startswith("user/") else Permission.ENDPOINT_MANAGE}
        case "policy":
            return {Permission.POLICY_MANAGE, Permission.POLICY_PUBLISH}
        case "site":
            is_of_policy = rest.partition(".")[2] in _POLICY_MEMBERS
            return {Permission.SITE_MANAGE, *((Permission.POLICY_PUBLISH,) if is_of_policy else ())}
        case _:
            return {Permission.TENANT_MANAGE}


def require_permissions_at(held: HeldPermissions, tenant: Tenant, parts: Iterable[str]) -> None:
    """Raise PermissionMissing if the caller cannot change these parts at the tenant."""
    _require_permissions(held, tenant, permissions_for(parts), "override these parts at the tenant")


def require_read_permissions_at(held: HeldPermissions, tenant: Tenant, parts: Iterable[str]) -> None:
    """Raise PermissionMissing if the caller cannot read these parts at the tenant."""
    needed = frozenset(_READ_PERMISSIONS[each] for each in permissions_for(parts) if each in _READ_PERMISSIONS)
    _require_permissions(held, tenant, needed, "repeat the request without drift")


def _require_permissions(held: HeldPermissions, tenant: Tenant, needed: frozenset[Permission], otherwise: str) -> None:
    missing = sorted(needed - held(TenantId(tenant.id)))
    if missing:
        raise PermissionMissing(
            f"You lack permissions that the template needs at tenant {tenant.slug!r}: {', '.join(missing)}.",
            place="tenant",
            remedy=f"Ask an administrator for a role that has these permissions, or {otherwise}.",
        )
