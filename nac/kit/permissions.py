"""Permissions of people and tokens, and the effects of API routes that each permission guards.

Every route of the API requires a permission. Every route declares its possible effects too (`api.access`). For each
effect, the route must require a permission that guards the effect. docs/reference/permissions.md lists permissions and
effects.
"""

from dataclasses import dataclass
from enum import IntEnum, StrEnum, unique
from typing import Final, Self


@unique
class Effect(StrEnum):
    """A possible effect of an API route, such as the deletion of data. The value of an effect is its description in
    docs/reference/permissions.md."""

    RECORDS = "Changes records on which no decision depends."
    RULES = "Changes or suspends the rules that decide now. Admit can then admit devices that it now rejects."
    DRAFT = "Writes rules that have no effect until they are published or rolled out."
    FACTS = "Changes data that rules use: groups, names, sites, time zones, vendors, posture, pools."
    CREDENTIALS = "Gives a device or user a valid credential, or unblocks the device or user."
    TRUST = "Changes what a tenant trusts or limits: authorities, identity sources, methods, limits, shared secrets."
    SECRETS = "Reveals or exports an existing secret, password or private key."
    SESSIONS = "Disconnects sessions, or makes devices authenticate again."
    AUTHORIZATION = "Changes the VLAN or other attributes of a live session, regardless of the rules."
    REJECTION = "Blocks devices, revokes certificates or suspends a tenant."
    RIGHTS = "Changes permissions of people or tokens, up to the permissions of the caller."
    SIGN_IN = "Changes how members sign in, or ends sign-ins of members."
    DISCLOSURE = "Returns or sends data that other read permissions protect."
    CONNECTION = "Makes Admit connect to an address that the caller chooses."
    ERASURE = "Deletes data or shortens the retention of data."
    WORK = (
        "Cancels or retries jobs and requests that other callers started. You need the permissions to start these jobs"
        " and requests."
    )
    TENANTS = "Creates a tenant with all its content."
    PLATFORM = "Changes cells, limits of the platform, or the MSP of a tenant."


_E: Final = Effect


class PermissionLevel(IntEnum):
    """Level of a permission: a tenant, an MSP with all its tenants, or the platform."""

    TENANT = 1
    MSP = 2
    PLATFORM = 3


@dataclass(frozen=True, slots=True)
class _Description:
    name: str
    about: str
    level: PermissionLevel
    guards: frozenset[Effect]
    help_desk: bool
    technicians: bool


def _describe(
    name: str,
    about: str,
    *guards: Effect,
    level: PermissionLevel = PermissionLevel.TENANT,
    transports: bool = False,
    help_desk: bool = False,
    technicians: bool | None = None,
) -> _Description:
    """Define a permission. By default, the role `msp-technician` has every permission of level `TENANT`.

    Every permission guards the effect RECORDS and the effects in `guards`. A permission that ends with ".read" also
    guards DISCLOSURE; any other permission also guards ERASURE. With `transports`, the permission does not guard
    DISCLOSURE: it reads only copies of data that other permissions protect.
    """
    common = {Effect.RECORDS}
    if not name.endswith(".read"):
        common.add(Effect.ERASURE)
    elif not transports:
        common.add(Effect.DISCLOSURE)
    if technicians is None:
        technicians = level is PermissionLevel.TENANT
    return _Description(name, about, level, frozenset({*common, *guards}), help_desk, technicians)


@unique
class Permission(StrEnum):
    """A permission, named noun.verb. The verb `read` means: list and get. `manage` means: create, update and delete."""

    _value_: str
    # Description in docs/reference/permissions.md.
    about: str
    level: PermissionLevel
    # Effects that a route may have if it requires the permission.
    guards: frozenset[Effect]
    # Whether the built-in roles `help-desk` and `msp-technician` have the permission (`nac.accounts.roles`).
    help_desk: bool
    technicians: bool

    # mypy uses this signature for `Permission("site.read")` too.
    def __new__(cls, description: _Description | str) -> Self:
        assert isinstance(description, _Description)
        member = str.__new__(cls, description.name)
        member._value_ = description.name
        member.about, member.level, member.guards = description.about, description.level, description.guards
        member.help_desk, member.technicians = description.help_desk, description.technicians
        return member

    TENANT_READ = _describe("tenant.read", "View a tenant, its settings and its RADIUS ports.", help_desk=True)
    TENANT_MANAGE = _describe(
        "tenant.manage", "Update the settings of a tenant. Suspend and resume the tenant.", _E.TRUST, _E.REJECTION
    )
    SITE_READ = _describe("site.read", "View sites.", help_desk=True)
    SITE_MANAGE = _describe(
        "site.manage",
        "Create, update and delete sites. If the caller also has `policy.publish`: assign policies,"
        " fallbacks and monitor mode.",
        _E.FACTS,
    )
    NAS_READ = _describe("nas.read", "View NASes, vendors and configuration snippets.", help_desk=True)
    NAS_MANAGE = _describe("nas.manage", "Create, update and delete NASes.", _E.FACTS, _E.TRUST, _E.REJECTION)
    SECRET_REVEAL = _describe("secret.reveal", "View the RADIUS shared secret.", _E.SECRETS)
    SECRET_ROTATE = _describe("secret.rotate", "Start, finish and cancel the rotation of a RADIUS secret.", _E.TRUST)
    ENDPOINT_READ = _describe("endpoint.read", "View endpoints, their groups and their evidence.", help_desk=True)
    ENDPOINT_MANAGE = _describe(
        "endpoint.manage",
        "Create, update, block and delete endpoints and their groups.",
        _E.FACTS,
        _E.CREDENTIALS,
        _E.REJECTION,
    )
    ENDPOINT_UNBLOCK = _describe("endpoint.unblock", "Unblock endpoints.", _E.CREDENTIALS, help_desk=True)
    USER_READ = _describe("user.read", "View users and their groups.", help_desk=True)
    USER_MANAGE = _describe(
        "user.manage",
        "Create, update and delete users and their groups. Set passwords.",
        _E.FACTS,
        _E.CREDENTIALS,
        _E.REJECTION,
    )
    SOURCE_READ = _describe("source.read", "View identity sources.")
    SOURCE_MANAGE = _describe(
        "source.manage", "Create, update, test and delete identity sources.", _E.TRUST, _E.CONNECTION
    )
    POLICY_READ = _describe(
        "policy.read", "View policies, their versions and hits. Check and test policy documents.", help_desk=True
    )
    POLICY_MANAGE = _describe("policy.manage", "Create, update and delete policies and drafts.", _E.DRAFT)
    POLICY_PUBLISH = _describe(
        "policy.publish", "Publish and roll back policies. Start self-tests.", _E.RULES, _E.AUTHORIZATION
    )
    CERTIFICATE_READ = _describe("certificate.read", "View certificates, authorities and enrolment.", help_desk=True)
    CERTIFICATE_ISSUE = _describe(
        "certificate.issue",
        "Issue and renew certificates. Create enrolment links and secrets. If the caller also has `authority.manage`:"
        " issue certificates of RadSec servers.",
        _E.CREDENTIALS,
    )
    CERTIFICATE_REVOKE = _describe(
        "certificate.revoke",
        "Revoke, suspend and reinstate certificates.",
        _E.CREDENTIALS,
        _E.REJECTION,
        help_desk=True,
    )
    AUTHORITY_MANAGE = _describe(
        "authority.manage",
        "Create, trust, revoke and delete certificate authorities and their keys.",
        _E.TRUST,
        _E.SECRETS,
        _E.REJECTION,
        _E.CONNECTION,
        technicians=False,
    )
    SESSION_READ = _describe("session.read", "View sessions, and CoA and Disconnect requests.", help_desk=True)
    SESSION_DISCONNECT = _describe(
        "session.disconnect",
        "Disconnect and reauthenticate sessions. If the caller also has `policy.publish`: change the"
        " attributes of sessions.",
        _E.SESSIONS,
        _E.WORK,
    )
    LOG_READ = _describe(
        "log.read", "Read the authentication and accounting logs. Simulate and replay policies.", help_desk=True
    )
    POOL_READ = _describe("pool.read", "View address pools and leases.", help_desk=True)
    POOL_MANAGE = _describe("pool.manage", "Create, update and delete pools. Release addresses.", _E.FACTS)
    REDECISION_READ = _describe("redecision.read", "View and preview re-decisions. View the settings of re-decisions.")
    REDECISION_MANAGE = _describe(
        "redecision.manage", "Start, approve and stop re-decisions. Update the settings of re-decisions.", _E.SESSIONS
    )
    FEED_READ = _describe("feed.read", "View feeds.", transports=True)
    FEED_MANAGE = _describe(
        "feed.manage",
        "Create, update, test and delete feeds. The caller also needs the permissions to read the events of the feed.",
        _E.CONNECTION,
    )
    EXPORT_READ = _describe(
        "export.read",
        "View exports of logs. If the caller also has the permission to read the log: download the exported files.",
        transports=True,
    )
    EXPORT_MANAGE = _describe("export.manage", "Start, retry, cancel and delete exports of logs.", _E.WORK)
    RETENTION_READ = _describe("retention.read", "View retention and holds.")
    RETENTION_MANAGE = _describe(
        "retention.manage", "Change retention. Create and remove holds.", _E.PLATFORM, technicians=False
    )
    AUDIT_READ = _describe("audit.read", "Read the audit log.")
    USAGE_READ = _describe("usage.read", "View usage: totals of accounting.")
    JOB_READ = _describe(
        "job.read",
        "View jobs. If the caller also has the permissions for the data of a job: view the job's result.",
        transports=True,
    )
    JOB_MANAGE = _describe("job.manage", "Cancel and retry jobs.", _E.WORK)
    MEMBER_READ = _describe("member.read", "View members and sign-in rules.")
    MEMBER_MANAGE = _describe(
        "member.manage",
        "Create, update and delete members. If the caller also has all other permissions: change sign-in rules.",
        _E.RIGHTS,
        _E.SIGN_IN,
        technicians=False,
    )
    TOKEN_READ = _describe("token.read", "View API tokens, without their secrets.", technicians=False)
    TOKEN_MANAGE = _describe(
        "token.manage",
        "Create and revoke API tokens. The caller needs each permission of the token.",
        _E.RIGHTS,
        technicians=False,
    )
    SIGN_ON_READ = _describe("sign-on.read", "View the single sign-on provider and its sign-ins.")
    SIGN_ON_MANAGE = _describe(
        "sign-on.manage",
        "End sign-ins of the single sign-on provider. If the caller also has all other permissions: set up"
        " the provider.",
        _E.SIGN_IN,
        _E.CONNECTION,
        technicians=False,
    )
    ROLE_READ = _describe("role.read", "View roles.")
    ROLE_MANAGE = _describe(
        "role.manage",
        "Create, update and delete roles. The caller needs each permission of the role.",
        _E.RIGHTS,
        technicians=False,
    )

    MSP_READ = _describe(
        "msp.read",
        "View an MSP, its tenants and its trials.",
        level=PermissionLevel.MSP,
        help_desk=True,
        technicians=True,
    )
    MSP_MANAGE = _describe("msp.manage", "Update an MSP.", _E.PLATFORM, level=PermissionLevel.MSP)
    TENANT_CREATE = _describe(
        "tenant.create",
        "Create tenants. If the caller also has the permissions for all parts of a tenant: import tenants from files.",
        _E.TENANTS,
        level=PermissionLevel.MSP,
    )
    TENANT_DELETE = _describe(
        "tenant.delete",
        "Delete and restore tenants. If the caller also has the permissions to read all parts of a tenant:"
        " export tenants.",
        _E.REJECTION,
        level=PermissionLevel.MSP,
    )
    TEMPLATE_READ = _describe(
        "template.read",
        "View templates, their tenants and roll-outs. If the caller also has the permissions to read the"
        " template's parts: view how a tenant differs from its template.",
        level=PermissionLevel.MSP,
        transports=True,
        technicians=True,
    )
    TEMPLATE_MANAGE = _describe(
        "template.manage",
        "Create and update templates. If the caller also has the permissions for the template's parts at each"
        " tenant: roll out templates.",
        _E.DRAFT,
        level=PermissionLevel.MSP,
    )

    MSP_CREATE = _describe(
        "msp.create",
        "Create MSPs. Extend and convert trials. If the caller also has `member.manage`: move a trial to an MSP.",
        _E.PLATFORM,
        level=PermissionLevel.PLATFORM,
    )
    MSP_SUSPEND = _describe(
        "msp.suspend", "Suspend and resume MSPs.", _E.REJECTION, _E.PLATFORM, level=PermissionLevel.PLATFORM
    )
    MSP_DELETE = _describe(
        "msp.delete", "Delete MSPs that have no tenants.", _E.REJECTION, level=PermissionLevel.PLATFORM
    )
    CELL_READ = _describe("cell.read", "View cells and the status of the installation.", level=PermissionLevel.PLATFORM)
    CELL_MANAGE = _describe(
        "cell.manage", "Update cells. Move tenants between cells.", _E.PLATFORM, level=PermissionLevel.PLATFORM
    )
    PERSON_READ = _describe(
        "person.read", "View all people of the platform and their sign-in methods.", level=PermissionLevel.PLATFORM
    )
    PERSON_MANAGE = _describe(
        "person.manage",
        "Create, disable and enable people. End sign-ins and reset factors of people. Create password links.",
        _E.RIGHTS,
        _E.SIGN_IN,
        level=PermissionLevel.PLATFORM,
    )

    @property
    def is_read(self) -> bool:
        return self.value.endswith(".read")


ENDPOINT_EFFECTS: Final = (Effect.FACTS, Effect.CREDENTIALS, Effect.REJECTION)
USER_EFFECTS: Final = (Effect.FACTS, Effect.CREDENTIALS, Effect.REJECTION)
NAS_EFFECTS: Final = (Effect.FACTS, Effect.TRUST, Effect.REJECTION)


def permissions_at(level: PermissionLevel) -> frozenset[Permission]:
    """Permissions that can be granted at this level, including permissions of lower levels."""
    return frozenset(permission for permission in Permission if permission.level <= level)
