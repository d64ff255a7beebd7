"""What the routes of the API can lead to, and which permission each effect takes: docs/permissions.md.

A route declares the effects that it can have (`api.access`). An effect takes one of its guards, so a route that asks
for another permission only is an escalation, and a test refuses it.
"""

from collections.abc import Mapping
from enum import StrEnum, unique
from types import MappingProxyType
from typing import Final

from nac.accounts.permissions import Permission

P = Permission


@unique
class Effect(StrEnum):
    """The value is the sentence of docs/permissions.md."""

    RECORDS = "Changes records that decide about nothing else."
    RULES = "Changes which rules decide, or suspends them: devices can be admitted that are rejected now."
    DRAFT = "Writes rules that decide nothing until they are published or rolled out."
    FACTS = "Changes facts that rules trust: groups, names, sites, time zones, vendors, posture, pools."
    CREDENTIALS = "Gives a device or user a credential that is accepted, or ends a block."
    TRUST = "Changes what a tenant trusts: authorities, identity sources, methods, limits, shared secrets."
    SECRETS = "Shows or exports a secret, password or private key that exists already."
    SESSIONS = "Ends sessions or has devices authenticate again."
    AUTHORIZATION = "Changes the VLAN or other attributes of a live session, past the rules."
    REJECTION = "Blocks devices, revokes certificates or stops a tenant."
    RIGHTS = "Changes who may do what, never beyond what the caller has."
    SIGN_IN = "Changes how everybody signs in at a place, or ends sign-ins."
    DISCLOSURE = "Sends or hands out data that otherwise takes other read permissions."
    CONNECTION = "Makes Admit connect to an address that the caller names."
    ERASURE = "Deletes data or shortens how long it is kept."
    WORK = "Cancels or restarts the work of others, with the permissions that starting it took."
    TENANTS = "Creates a tenant with everything in it."
    PLATFORM = "Changes cells, limits of the platform or whose a tenant is."


# Of each effect the permissions of which a route asks for at least one.
GUARDS: Final[Mapping[Effect, frozenset[Permission]]] = MappingProxyType(
    {
        Effect.RECORDS: frozenset(Permission),
        Effect.RULES: frozenset({P.POLICY_PUBLISH}),
        Effect.DRAFT: frozenset({P.POLICY_MANAGE, P.TEMPLATE_MANAGE}),
        Effect.FACTS: frozenset({P.ENDPOINT_MANAGE, P.USER_MANAGE, P.NAS_MANAGE, P.SITE_MANAGE, P.POOL_MANAGE}),
        Effect.CREDENTIALS: frozenset(
            {P.CERTIFICATE_ISSUE, P.CERTIFICATE_REVOKE, P.USER_MANAGE, P.ENDPOINT_MANAGE, P.ENDPOINT_UNBLOCK}
        ),
        Effect.TRUST: frozenset({P.AUTHORITY_MANAGE, P.SOURCE_MANAGE, P.TENANT_MANAGE, P.NAS_MANAGE, P.SECRET_ROTATE}),
        Effect.SECRETS: frozenset({P.SECRET_REVEAL, P.AUTHORITY_MANAGE}),
        Effect.SESSIONS: frozenset({P.SESSION_DISCONNECT, P.REDECISION_MANAGE}),
        Effect.AUTHORIZATION: frozenset({P.POLICY_PUBLISH}),
        Effect.REJECTION: frozenset(
            {
                *(P.ENDPOINT_MANAGE, P.USER_MANAGE, P.NAS_MANAGE, P.CERTIFICATE_REVOKE, P.AUTHORITY_MANAGE),
                *(P.TENANT_MANAGE, P.TENANT_DELETE, P.MSP_SUSPEND, P.MSP_DELETE),
            }
        ),
        Effect.RIGHTS: frozenset({P.MEMBER_MANAGE, P.ROLE_MANAGE, P.TOKEN_MANAGE, P.PERSON_MANAGE}),
        Effect.SIGN_IN: frozenset({P.MEMBER_MANAGE, P.SIGN_ON_MANAGE, P.PERSON_MANAGE}),
        Effect.DISCLOSURE: frozenset(permission for permission in Permission if permission.is_read),
        Effect.CONNECTION: frozenset({P.FEED_MANAGE, P.SOURCE_MANAGE, P.AUTHORITY_MANAGE, P.SIGN_ON_MANAGE}),
        Effect.ERASURE: frozenset(Permission) - {permission for permission in Permission if permission.is_read},
        Effect.WORK: frozenset({P.JOB_MANAGE, P.EXPORT_MANAGE, P.SESSION_DISCONNECT}),
        Effect.TENANTS: frozenset({P.TENANT_CREATE}),
        Effect.PLATFORM: frozenset({P.CELL_MANAGE, P.MSP_CREATE, P.MSP_MANAGE, P.MSP_SUSPEND, P.RETENTION_MANAGE}),
    }
)

OF_ENDPOINTS: Final = (Effect.FACTS, Effect.CREDENTIALS, Effect.REJECTION)
OF_USERS: Final = (Effect.FACTS, Effect.CREDENTIALS, Effect.REJECTION)
OF_NASES: Final = (Effect.FACTS, Effect.TRUST, Effect.REJECTION)
