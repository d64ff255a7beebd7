"""Built-in roles. MSPs and tenants can create custom roles."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from nac.core.access.permissions import Permission, PermissionLevel, permissions_at


@dataclass(frozen=True, slots=True)
class BuiltInRole:
    slug: str
    name: str
    told: str
    permissions: frozenset[Permission]
    # Levels at which it can be assigned.
    levels: frozenset[PermissionLevel]

    def at(self, level: PermissionLevel) -> frozenset[Permission]:
        """Permissions that the role grants at this level."""
        return self.permissions & permissions_at(level)


_READ_PERMISSIONS = frozenset(permission for permission in Permission if permission.is_read)
_TENANT_PERMISSIONS = permissions_at(PermissionLevel.TENANT)
# Permissions about people, retention and authorities, which technicians do not have.
_ACCOUNT_PERMISSIONS = {
    Permission.MEMBER_MANAGE,
    Permission.TOKEN_READ,
    Permission.TOKEN_MANAGE,
    Permission.ROLE_MANAGE,
    Permission.SIGN_ON_MANAGE,
    Permission.RETENTION_MANAGE,
    Permission.AUTHORITY_MANAGE,
}
_HELP_DESK_PERMISSIONS = {
    Permission.TENANT_READ,
    Permission.SITE_READ,
    Permission.NAS_READ,
    Permission.ENDPOINT_READ,
    Permission.USER_READ,
    Permission.POLICY_READ,
    Permission.CERTIFICATE_READ,
    Permission.SESSION_READ,
    Permission.LOG_READ,
    Permission.POOL_READ,
    Permission.ENDPOINT_UNBLOCK,
    Permission.CERTIFICATE_REVOKE,
}
_ALL_LEVELS = frozenset(PermissionLevel)

BUILT_IN_ROLES: Final[Mapping[str, BuiltInRole]] = MappingProxyType(
    {
        role.slug: role
        for role in (
            BuiltInRole(
                "platform-operator",
                "Platform operator",
                "Has all permissions on the platform, all MSPs and all tenants.",
                frozenset(Permission),
                frozenset({PermissionLevel.PLATFORM}),
            ),
            BuiltInRole(
                "msp-admin",
                "MSP administrator",
                "Has all permissions on an MSP and its tenants.",
                permissions_at(PermissionLevel.MSP),
                frozenset({PermissionLevel.MSP}),
            ),
            BuiltInRole(
                "msp-technician",
                "MSP technician",
                "Manages the networks of all or selected tenants of an MSP, but not people, retention or authorities.",
                (_TENANT_PERMISSIONS - _ACCOUNT_PERMISSIONS) | {Permission.MSP_READ, Permission.TEMPLATE_READ},
                frozenset({PermissionLevel.MSP}),
            ),
            BuiltInRole(
                "tenant-admin",
                "Tenant administrator",
                "Has all permissions on a tenant.",
                _TENANT_PERMISSIONS,
                frozenset({PermissionLevel.TENANT}),
            ),
            BuiltInRole(
                "help-desk",
                "Help desk",
                "Finds out why a device is rejected, unblocks devices and revokes certificates.",
                frozenset(_HELP_DESK_PERMISSIONS) | {Permission.MSP_READ},
                frozenset({PermissionLevel.MSP, PermissionLevel.TENANT}),
            ),
            BuiltInRole("auditor", "Auditor", "Has all read permissions.", _READ_PERMISSIONS, _ALL_LEVELS),
        )
    }
)
