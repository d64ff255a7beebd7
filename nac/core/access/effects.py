"""Effects of API routes and the permissions that guard them: docs/reference/permissions.md.

A route declares its possible effects (`api.access`) and must require a guard of each effect. A route without one is an
escalation, and a test rejects it.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum, unique
from itertools import combinations
from types import MappingProxyType
from typing import Final, NamedTuple

from nac.core.access.permissions import Permission

P = Permission


@unique
class Effect(StrEnum):
    """An effect; the value is its sentence in docs/reference/permissions.md."""

    RECORDS = "Changes records on which no decision depends."
    RULES = "Changes or suspends the rules in force. Devices that are now rejected can be admitted."
    DRAFT = "Writes rules that have no effect until they are published or rolled out."
    FACTS = "Changes facts that rules use: groups, names, sites, time zones, vendors, posture, pools."
    CREDENTIALS = "Gives a device or user a valid credential, or unblocks it."
    TRUST = "Changes what a tenant trusts: authorities, identity sources, methods, limits, shared secrets."
    SECRETS = "Reveals or exports an existing secret, password or private key."
    SESSIONS = "Disconnects sessions, or makes devices authenticate again."
    AUTHORIZATION = "Changes the VLAN or other attributes of a live session without the rules."
    REJECTION = "Blocks devices, revokes certificates or suspends a tenant."
    RIGHTS = "Changes permissions of people or tokens, up to those of the caller."
    SIGN_IN = "Changes how members sign in, or ends their sign-ins."
    DISCLOSURE = "Returns or sends data that other read permissions protect."
    CONNECTION = "Makes Admit connect to an address that the caller chooses."
    ERASURE = "Deletes data or shortens its retention."
    WORK = "Cancels or retries jobs and requests of others, with the permissions to start them."
    TENANTS = "Creates a tenant with all its content."
    PLATFORM = "Changes cells, limits of the platform, or the MSP of a tenant."


# Feeds, exports, jobs and templates only transport data that other permissions protect.
_INDIRECT_READS: Final = frozenset({P.FEED_READ, P.EXPORT_READ, P.JOB_READ, P.TEMPLATE_READ})
_DATA_READS: Final = frozenset(each for each in Permission if each.is_read) - _INDIRECT_READS
# Guards of each effect: a route must require at least one of them.
EFFECT_GUARDS: Final[Mapping[Effect, frozenset[Permission]]] = MappingProxyType(
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
        Effect.DISCLOSURE: _DATA_READS,
        Effect.CONNECTION: frozenset({P.FEED_MANAGE, P.SOURCE_MANAGE, P.AUTHORITY_MANAGE, P.SIGN_ON_MANAGE}),
        Effect.ERASURE: frozenset(each for each in Permission if not each.is_read),
        Effect.WORK: frozenset({P.JOB_MANAGE, P.EXPORT_MANAGE, P.SESSION_DISCONNECT}),
        Effect.TENANTS: frozenset({P.TENANT_CREATE}),
        Effect.PLATFORM: frozenset({P.CELL_MANAGE, P.MSP_CREATE, P.MSP_MANAGE, P.MSP_SUSPEND, P.RETENTION_MANAGE}),
    }
)

ENDPOINT_EFFECTS: Final = (Effect.FACTS, Effect.CREDENTIALS, Effect.REJECTION)
USER_EFFECTS: Final = (Effect.FACTS, Effect.CREDENTIALS, Effect.REJECTION)
NAS_EFFECTS: Final = (Effect.FACTS, Effect.TRUST, Effect.REJECTION)


@dataclass(frozen=True, slots=True)
class RouteDeclaration:
    """Declaration of a route: permissions that all requests need, those that some need, and effects."""

    operation: str
    always: frozenset[Permission]
    also: frozenset[Permission]
    leads_to: frozenset[Effect]

    def unguarded(self) -> frozenset[Effect]:
        """Effects without a required guard; each is an escalation."""
        return frozenset(each for each in self.leads_to if not EFFECT_GUARDS[each] & (self.always | self.also))

    def reached(self, held: frozenset[Permission]) -> frozenset[Effect]:
        """Effects that a caller with these permissions can cause."""
        if not self.always <= held:
            return frozenset()
        return frozenset(each for each in self.leads_to if EFFECT_GUARDS[each] & (self.always | self.also) & held)


class ReachedEffect(NamedTuple):
    operation: str
    effect: Effect


# Effects that are stronger in combination, and the consequence.
EFFECT_CHAINS: Final[Mapping[frozenset[Effect], str]] = MappingProxyType(
    {frozenset({Effect.DRAFT, Effect.RULES}): "Puts the caller's own rules in force: any device can be admitted."}
)


@dataclass(frozen=True, slots=True)
class PermissionPair:
    """Two permissions that have more effects in combination."""

    first: Permission
    second: Permission
    # Effects that need both.
    reached: frozenset[ReachedEffect]
    chains: tuple[str, ...]


def find_reached_effects(routes: Iterable[RouteDeclaration], *held: Permission) -> frozenset[ReachedEffect]:
    has = frozenset(held)
    return frozenset(ReachedEffect(route.operation, effect) for route in routes for effect in route.reached(has))


def find_permission_pairs(routes: Collection[RouteDeclaration]) -> list[PermissionPair]:
    """All pairs of permissions with more effects than the two separately."""
    alone = {each: find_reached_effects(routes, each) for each in Permission}
    effects = {each: {one.effect for one in found} for each, found in alone.items()}
    found = []
    for first, second in combinations(Permission, 2):
        more = find_reached_effects(routes, first, second) - alone[first] - alone[second]
        both = effects[first] | effects[second]
        chains = tuple(
            told
            for links, told in EFFECT_CHAINS.items()
            if links <= both and not (links <= effects[first] or links <= effects[second])
        )
        if more or chains:
            found.append(PermissionPair(first, second, more, chains))
    return found
