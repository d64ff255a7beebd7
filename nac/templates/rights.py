"""Which permissions at a tenant the parts of a template take: those by which they are changed one by one."""

from collections.abc import Callable, Iterable
from typing import Final

from nac.accounts.grants import PermissionMissing
from nac.accounts.permissions import Permission
from nac.ids import TenantId
from nac.models import Tenant

# What the caller may do at a tenant.
Held = Callable[[TenantId], frozenset[Permission]]
# Of a site: they say which rules decide there.
_OF_POLICY: Final = frozenset({"policy", "monitor", "fallback"})
_READ_BY: Final = {
    Permission.ENDPOINT_MANAGE: Permission.ENDPOINT_READ,
    Permission.USER_MANAGE: Permission.USER_READ,
    Permission.POLICY_MANAGE: Permission.POLICY_READ,
    Permission.SITE_MANAGE: Permission.SITE_READ,
    Permission.TENANT_MANAGE: Permission.TENANT_READ,
}
TO_READ_EVERY_PART: Final = frozenset(_READ_BY.values())
EVERY_PART: Final = frozenset(
    {
        *(Permission.ENDPOINT_MANAGE, Permission.USER_MANAGE, Permission.SITE_MANAGE),
        *(Permission.POLICY_MANAGE, Permission.POLICY_PUBLISH, Permission.TENANT_MANAGE),
    }
)


def needed_for(parts: Iterable[str]) -> frozenset[Permission]:
    """`parts` as `document.parts_of` names them."""
    return frozenset[Permission]().union(*map(_needed, parts))


def _needed(part: str) -> set[Permission]:
    kind, _, rest = part.partition(":")
    match kind:
        case "group":
            return {Permission.USER_MANAGE if rest.startswith("user/") else Permission.ENDPOINT_MANAGE}
        case "policy":
            return {Permission.POLICY_MANAGE, Permission.POLICY_PUBLISH}
        case "site":
            is_of_policy = rest.partition(".")[2] in _OF_POLICY
            return {Permission.SITE_MANAGE, *((Permission.POLICY_PUBLISH,) if is_of_policy else ())}
        case _:
            return {Permission.TENANT_MANAGE}


def require_at(held: Held, tenant: Tenant, parts: Iterable[str]) -> None:
    """Raises PermissionMissing where the caller could not change these parts at the tenant."""
    _require(held, tenant, needed_for(parts), "override these parts at the tenant")


def require_to_read_at(held: Held, tenant: Tenant, parts: Iterable[str]) -> None:
    """Raises PermissionMissing where the caller could not read these parts at the tenant."""
    needed = frozenset(_READ_BY[each] for each in needed_for(parts) if each in _READ_BY)
    _require(held, tenant, needed, "ask without drift")


def _require(held: Held, tenant: Tenant, needed: frozenset[Permission], otherwise: str) -> None:
    missing = sorted(needed - held(TenantId(tenant.id)))
    if missing:
        raise PermissionMissing(
            f"At tenant {tenant.slug!r} the template takes permissions that you do not have: {', '.join(missing)}.",
            place="tenant",
            remedy=f"Ask an administrator for a role that has them, or {otherwise}.",
        )
