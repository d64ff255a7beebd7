"""Permissions for tenant files: those that reading or creating the parts one by one requires."""

from collections.abc import Mapping
from typing import Final, NamedTuple

from nac.core.access.permissions import Permission
from nac.logs.feeds.read_permissions import PERMISSION_BY_KIND

P = Permission


class TablePermissions(NamedTuple):
    read: P
    make: tuple[P, ...]


_AUTHORITIES = TablePermissions(P.CERTIFICATE_READ, (P.AUTHORITY_MANAGE,))
_POLICIES = TablePermissions(P.POLICY_READ, (P.POLICY_MANAGE, P.POLICY_PUBLISH))
_ENDPOINTS = TablePermissions(P.ENDPOINT_READ, (P.ENDPOINT_MANAGE,))
_USERS = TablePermissions(P.USER_READ, (P.USER_MANAGE,))
_RETENTION = TablePermissions(P.RETENTION_READ, (P.RETENTION_MANAGE,))
# By table (`tables.CONTENTS`).
CONTENT_PERMISSIONS: Final[Mapping[str, TablePermissions]] = {
    # A site's policy, fallback and monitor mode decide which rules apply.
    "sites": TablePermissions(P.SITE_READ, (P.SITE_MANAGE, P.POLICY_PUBLISH)),
    "nases": TablePermissions(P.NAS_READ, (P.NAS_MANAGE,)),
    "secret_rotations": TablePermissions(P.NAS_READ, (P.SECRET_ROTATE,)),
    **dict.fromkeys(("policies", "policy_versions"), _POLICIES),
    **dict.fromkeys(("pools", "pool_addresses"), TablePermissions(P.POOL_READ, (P.POOL_MANAGE,))),
    **dict.fromkeys(("endpoint_groups", "endpoints", "endpoint_group_members"), _ENDPOINTS),
    **dict.fromkeys(("user_groups", "users", "user_group_members"), _USERS),
    "identity_sources": TablePermissions(P.SOURCE_READ, (P.SOURCE_MANAGE,)),
    # A feed sends data that these permissions read.
    "feeds": TablePermissions(P.FEED_READ, (P.FEED_MANAGE, *PERMISSION_BY_KIND.values())),
    "redecision_settings": TablePermissions(P.REDECISION_READ, (P.REDECISION_MANAGE,)),
    **dict.fromkeys(("retention_settings", "retention_terms"), _RETENTION),
    **dict.fromkeys(("certificate_settings", "certificate_authorities", "revocation_lists"), _AUTHORITIES),
    **dict.fromkeys(("status_sources", "scep_webhooks"), _AUTHORITIES),
    "certificates": TablePermissions(P.CERTIFICATE_READ, (P.CERTIFICATE_ISSUE,)),
}
# By table (`tables.LOGS`).
LOG_PERMISSIONS: Final[Mapping[str, P]] = {
    "audit_log": P.AUDIT_READ,
    **dict.fromkeys(("auth_log", "accounting_log", "event_notes"), P.LOG_READ),
    "session_history": P.SESSION_READ,
    "usage_hours": P.USAGE_READ,
}
# Secrets include RADIUS secrets, passwords and the keys of authorities.
_SECRET_PERMISSIONS: Final = frozenset({P.SECRET_REVEAL, P.AUTHORITY_MANAGE})
IMPORT_PERMISSIONS: Final = frozenset({P.TENANT_CREATE, P.TENANT_MANAGE}).union(
    *(each.make for each in CONTENT_PERMISSIONS.values())
)


def export_permissions(*, logs: bool, secrets: bool) -> frozenset[P]:
    needed = {P.TENANT_DELETE, P.TENANT_READ, *(each.read for each in CONTENT_PERMISSIONS.values())}
    return frozenset(needed.union(LOG_PERMISSIONS.values() if logs else (), _SECRET_PERMISSIONS if secrets else ()))
