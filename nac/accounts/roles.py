"""Built-in roles. MSPs and tenants can create custom roles."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from nac.kit.permissions import Permission, PermissionLevel, permissions_at


@dataclass(frozen=True, slots=True)
class BuiltInRole:
    slug: str
    name: str
    description: str
    permissions: frozenset[Permission]
    # Levels at which the role can be assigned.
    levels: frozenset[PermissionLevel]

    def at(self, level: PermissionLevel) -> frozenset[Permission]:
        """Permissions that the role grants at this level."""
        return self.permissions & permissions_at(level)


_READ_PERMISSIONS = frozenset(permission for permission in Permission if permission.is_read)
_TENANT_PERMISSIONS = permissions_at(PermissionLevel.TENANT)
_TECHNICIAN_PERMISSIONS = frozenset(permission for permission in Permission if permission.technicians)
_HELP_DESK_PERMISSIONS = frozenset(permission for permission in Permission if permission.help_desk)
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
                _TECHNICIAN_PERMISSIONS,
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
                _HELP_DESK_PERMISSIONS,
                frozenset({PermissionLevel.MSP, PermissionLevel.TENANT}),
            ),
            BuiltInRole("auditor", "Auditor", "Has all read permissions.", _READ_PERMISSIONS, _ALL_LEVELS),
        )
    }
)
