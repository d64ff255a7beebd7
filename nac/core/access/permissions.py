"""Permissions of people and tokens. Every route of the API requires one."""

from enum import IntEnum, StrEnum, unique
from typing import Final


class PermissionLevel(IntEnum):
    """Level of a permission: a tenant, an MSP with all its tenants, or the platform."""

    TENANT = 1
    MSP = 2
    PLATFORM = 3


@unique
class Permission(StrEnum):
    """A permission as noun.verb. `read` lists and gets; `manage` creates, updates and deletes."""

    TENANT_READ = "tenant.read"
    TENANT_MANAGE = "tenant.manage"
    SITE_READ = "site.read"
    SITE_MANAGE = "site.manage"
    NAS_READ = "nas.read"
    NAS_MANAGE = "nas.manage"
    SECRET_REVEAL = "secret.reveal"  # noqa: S105 -- a name
    SECRET_ROTATE = "secret.rotate"  # noqa: S105 -- a name
    ENDPOINT_READ = "endpoint.read"
    ENDPOINT_MANAGE = "endpoint.manage"
    ENDPOINT_UNBLOCK = "endpoint.unblock"
    USER_READ = "user.read"
    USER_MANAGE = "user.manage"
    SOURCE_READ = "source.read"
    SOURCE_MANAGE = "source.manage"
    POLICY_READ = "policy.read"
    POLICY_MANAGE = "policy.manage"
    POLICY_PUBLISH = "policy.publish"
    CERTIFICATE_READ = "certificate.read"
    CERTIFICATE_ISSUE = "certificate.issue"
    CERTIFICATE_REVOKE = "certificate.revoke"
    AUTHORITY_MANAGE = "authority.manage"
    SESSION_READ = "session.read"
    SESSION_DISCONNECT = "session.disconnect"
    LOG_READ = "log.read"
    POOL_READ = "pool.read"
    POOL_MANAGE = "pool.manage"
    REDECISION_READ = "redecision.read"
    REDECISION_MANAGE = "redecision.manage"
    FEED_READ = "feed.read"
    FEED_MANAGE = "feed.manage"
    EXPORT_READ = "export.read"
    EXPORT_MANAGE = "export.manage"
    RETENTION_READ = "retention.read"
    RETENTION_MANAGE = "retention.manage"
    AUDIT_READ = "audit.read"
    USAGE_READ = "usage.read"
    JOB_READ = "job.read"
    JOB_MANAGE = "job.manage"
    MEMBER_READ = "member.read"
    MEMBER_MANAGE = "member.manage"
    TOKEN_READ = "token.read"  # noqa: S105 -- a name
    TOKEN_MANAGE = "token.manage"  # noqa: S105 -- a name
    SIGN_ON_READ = "sign-on.read"
    SIGN_ON_MANAGE = "sign-on.manage"
    ROLE_READ = "role.read"
    ROLE_MANAGE = "role.manage"

    MSP_READ = "msp.read"
    MSP_MANAGE = "msp.manage"
    TENANT_CREATE = "tenant.create"
    TENANT_DELETE = "tenant.delete"
    TEMPLATE_READ = "template.read"
    TEMPLATE_MANAGE = "template.manage"

    MSP_CREATE = "msp.create"
    MSP_SUSPEND = "msp.suspend"
    MSP_DELETE = "msp.delete"
    CELL_READ = "cell.read"
    CELL_MANAGE = "cell.manage"
    PERSON_READ = "person.read"
    PERSON_MANAGE = "person.manage"

    @property
    def level(self) -> PermissionLevel:
        return _LEVELS.get(self, PermissionLevel.TENANT)

    @property
    def is_read(self) -> bool:
        return self.value.endswith(".read")


_LEVELS: Final = {
    **dict.fromkeys(
        (
            Permission.MSP_READ,
            Permission.MSP_MANAGE,
            Permission.TENANT_CREATE,
            Permission.TENANT_DELETE,
            Permission.TEMPLATE_READ,
            Permission.TEMPLATE_MANAGE,
        ),
        PermissionLevel.MSP,
    ),
    **dict.fromkeys(
        (
            Permission.MSP_CREATE,
            Permission.MSP_SUSPEND,
            Permission.MSP_DELETE,
            Permission.CELL_READ,
            Permission.CELL_MANAGE,
            Permission.PERSON_READ,
            Permission.PERSON_MANAGE,
        ),
        PermissionLevel.PLATFORM,
    ),
}


def permissions_at(level: PermissionLevel) -> frozenset[Permission]:
    """Permissions that can be granted at this level, including those of lower levels."""
    return frozenset(permission for permission in Permission if permission.level <= level)
