"""Permissions for services and routes. `nac.kit.permissions` declares the permissions, because database models also use
the permissions."""

from nac.kit.permissions import Permission, PermissionLevel

__all__ = ["Permission", "PermissionLevel", "permissions_at"]


def permissions_at(level: PermissionLevel) -> frozenset[Permission]:
    """Permissions that can be granted at this level, including permissions of lower levels."""
    return frozenset(permission for permission in Permission if permission.level <= level)
