"""Built-in roles. MSPs and tenants can create custom roles."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from nac.accounts.permissions import Level, Permission, permissions_at


@dataclass(frozen=True, slots=True)
class Role:
    slug: str
    name: str
    told: str
    permissions: frozenset[Permission]
    # Levels at which it can be assigned.
    levels: frozenset[Level]

    def at(self, level: Level) -> frozenset[Permission]:
        """Permissions that the role grants at this level."""
        return self.permissions & permissions_at(level)


_READS = frozenset(permission for permission in Permission if permission.is_read)
_OF_TENANTS = permissions_at(Level.TENANT)
# Permissions about people, retention and authorities, which technicians do not have.
_PEOPLE = {
    Permission.MEMBER_MANAGE,
    Permission.TOKEN_READ,
    Permission.TOKEN_MANAGE,
    Permission.ROLE_MANAGE,
    Permission.SIGN_ON_MANAGE,
    Permission.RETENTION_MANAGE,
    Permission.AUTHORITY_MANAGE,
}
_HELP_DESK = {
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
_EVERYWHERE = frozenset(Level)

ROLES: Final[Mapping[str, Role]] = MappingProxyType(
    {
        role.slug: role
        for role in (
            Role(
                "platform-operator",
                "Platform operator",
                "Has all permissions on the platform, all MSPs and all tenants.",
                frozenset(Permission),
                frozenset({Level.PLATFORM}),
            ),
            Role(
                "msp-admin",
                "MSP administrator",
                "Has all permissions on an MSP and its tenants.",
                permissions_at(Level.MSP),
                frozenset({Level.MSP}),
            ),
            Role(
                "msp-technician",
                "MSP technician",
                "Manages the networks of all or selected tenants of an MSP, but not people, retention or authorities.",
                (_OF_TENANTS - _PEOPLE) | {Permission.MSP_READ, Permission.TEMPLATE_READ},
                frozenset({Level.MSP}),
            ),
            Role(
                "tenant-admin",
                "Tenant administrator",
                "Has all permissions on a tenant.",
                _OF_TENANTS,
                frozenset({Level.TENANT}),
            ),
            Role(
                "help-desk",
                "Help desk",
                "Finds out why a device is rejected, unblocks devices and revokes certificates.",
                frozenset(_HELP_DESK) | {Permission.MSP_READ},
                frozenset({Level.MSP, Level.TENANT}),
            ),
            Role("auditor", "Auditor", "Has all read permissions.", _READS, _EVERYWHERE),
        )
    }
)
