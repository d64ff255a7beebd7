"""Permissions for feeds: those to read their events."""

from collections.abc import Mapping
from typing import Final

from nac.core.access.permissions import Permission

# By kind of event (`nac.logs.feeds.event_sources`).
PERMISSION_BY_KIND: Final[Mapping[str, Permission]] = {
    "authentication": Permission.LOG_READ,
    "accounting": Permission.LOG_READ,
    "coa": Permission.SESSION_READ,
    "session": Permission.SESSION_READ,
    "audit": Permission.AUDIT_READ,
    "alarm": Permission.TENANT_READ,
    "endpoint": Permission.ENDPOINT_READ,
    "certificate": Permission.CERTIFICATE_READ,
}
