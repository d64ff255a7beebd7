"""Permissions of a caller at a tenant, MSP or the platform. Pure; uses no database."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Final, Literal, TypeVar
from uuid import UUID

from nac.core.access.owners import Owner
from nac.core.access.permissions import Permission, PermissionLevel
from nac.kit.errors import Forbidden
from nac.kit.ids import MspId, TenantId


class PermissionMissing(Forbidden):
    """You do not have the permission."""


@dataclass(frozen=True, slots=True)
class TenantRef:
    """A tenant and its MSP."""

    tenant_id: TenantId
    msp_id: MspId
    is_msp_suspended: bool = False


@dataclass(frozen=True, slots=True)
class MspRef:
    msp_id: MspId
    is_suspended: bool = False


# Stand-ins for unknown ids, so that rejecting them takes as long as rejecting foreign ones.
UNKNOWN_MSP: Final = MspRef(MspId(UUID(int=0)))
UNKNOWN_TENANT: Final = TenantRef(TenantId(UUID(int=0)), UNKNOWN_MSP.msp_id)


@dataclass(frozen=True, slots=True)
class Grant:
    """Permissions on a tenant or an MSP; on the platform if both ids are None."""

    permissions: frozenset[Permission]
    msp_id: MspId | None = None
    tenant_id: TenantId | None = None
    # Only these tenants of the MSP; None for all of them, including future ones.
    chosen: frozenset[TenantId] | None = None
    # Id of its membership if the person has not used it yet.
    new_membership: UUID | None = None
    # Requirement for a sign-in without the owner's provider; `sign-on` excludes all of them.
    required_sign_in: Literal["sign-on", "two-factors"] | None = None

    @property
    def owner(self) -> Owner:
        return Owner(self.msp_id, self.tenant_id)

    @property
    def level(self) -> PermissionLevel:
        if self.tenant_id is not None:
            return PermissionLevel.TENANT
        return PermissionLevel.PLATFORM if self.msp_id is None else PermissionLevel.MSP

    def covers_tenant(self, place: TenantRef) -> bool:
        match self.level:
            case PermissionLevel.TENANT:
                return self.tenant_id == place.tenant_id
            case PermissionLevel.MSP:
                if place.is_msp_suspended:
                    return False
                return self.msp_id == place.msp_id and (self.chosen is None or place.tenant_id in self.chosen)
        return True

    def on_msp(self, msp_id: MspId) -> frozenset[Permission]:
        match self.level:
            case PermissionLevel.TENANT:
                return frozenset()
            case PermissionLevel.MSP if self.msp_id != msp_id:
                return frozenset()
            case PermissionLevel.MSP if self.chosen is not None:
                # Only read permissions of the MSP itself, because others affect all of its tenants.
                return frozenset(
                    each for each in self.permissions if each.level is PermissionLevel.MSP and each.is_read
                )
        return self.permissions


@dataclass(frozen=True, slots=True)
class TenantReach:
    """Tenants of a caller: all; those of `msps`; `chosen` ones by grants on MSPs; `tenants` by grants on tenants."""

    everything: bool
    msps: frozenset[MspId]
    chosen: frozenset[TenantId]
    tenants: frozenset[TenantId]


@dataclass(frozen=True, slots=True)
class TokenMaker:
    """The person responsible for a token, directly or through other tokens."""

    person_id: UUID
    # Name of the person in the audit log.
    actor: str
    # Owner of the provider that signed the person in; the platform without one.
    via: Owner = field(default_factory=Owner)


@dataclass(frozen=True, slots=True)
class Principal:
    """A caller: a signed-in person or a token, with their grants."""

    # Kind and name for the audit log, such as person:ann@example.com or token:monitoring.
    actor: str
    grants: tuple[Grant, ...] = ()
    # Grants that need another kind of sign-in.
    withheld: tuple[Grant, ...] = ()
    # The person, or the maker of a token; None for tokens created on the command line.
    maker: TokenMaker | None = None
    # Id of a token; None for a person.
    token_id: UUID | None = None

    def on_tenant(self, place: TenantRef) -> frozenset[Permission]:
        """Permissions at the tenant, of any level; those of MSP level have no effect there."""
        return _union_all(grant.permissions for grant in self.grants if grant.covers_tenant(place))

    def level_on_tenant(self, place: TenantRef, permission: Permission) -> PermissionLevel:
        """Highest level that grants the permission there. The caller must have it."""
        return max(each.level for each in self.grants if permission in each.permissions and each.covers_tenant(place))

    def on_msp(self, place: MspRef) -> frozenset[Permission]:
        """Permissions at the MSP; without those that the MSP granted while it is suspended."""
        return (
            self.on_platform() if place.is_suspended else _union_all(each.on_msp(place.msp_id) for each in self.grants)
        )

    def on_platform(self) -> frozenset[Permission]:
        return _union_all(grant.permissions for grant in self.grants if grant.level is PermissionLevel.PLATFORM)

    def get_only_msp(self) -> MspId | None:
        """The only MSP with grants; None if there are none or several."""
        found = {grant.msp_id for grant in self.grants if grant.tenant_id is None}
        return found.pop() if len(found) == 1 else None

    def msps(self, permission: Permission) -> frozenset[MspId] | None:
        """MSPs at which the caller has the permission, ignoring suspension; None for all."""
        if permission in self.on_platform():
            return None
        own = {each.msp_id for each in self.grants if each.level is PermissionLevel.MSP and each.msp_id is not None}
        return frozenset(each for each in own if permission in self.on_msp(MspRef(each)))

    def reach(self, permission: Permission) -> TenantReach:
        """Tenants at which the caller has the permission. Grants on a suspended MSP do not count."""
        grants = [each for each in self.grants if permission in each.permissions]
        of_msps = [each for each in grants if each.level is PermissionLevel.MSP]
        return TenantReach(
            everything=any(each.level is PermissionLevel.PLATFORM for each in grants),
            msps=frozenset(each.msp_id for each in of_msps if each.msp_id is not None and each.chosen is None),
            chosen=_union_all(each.chosen or frozenset() for each in of_msps),
            tenants=frozenset(each.tenant_id for each in grants if each.tenant_id is not None),
        )

    def tenants_of(self, msp_id: MspId) -> frozenset[TenantId] | None:
        """Tenants of the MSP that the caller sees by grants on the MSP or the platform; None for all."""
        if any(
            each.level is PermissionLevel.PLATFORM or (each.msp_id == msp_id and each.chosen is None)
            for each in self.grants
        ):
            return None
        return _union_all(each.chosen or frozenset() for each in self.grants if each.msp_id == msp_id)


def filter_grants_of_owner(grants: Iterable[Grant], owner: Owner) -> tuple[Grant, ...]:
    """Grants of this owner; its provider is valid only for these."""
    return tuple(each for each in grants if (each.msp_id, each.tenant_id) == (owner.msp_id, owner.tenant_id))


def require_permissions(
    held: Collection[Permission], *wanted: Permission, level: PermissionLevel | None = None
) -> None:
    """Raise PermissionMissing with all missing permissions. `level` is named in the error, if set."""
    missing = sorted(set(wanted).difference(held))
    if missing:
        where = f" on the {level.name.lower()}" if level is not None else ""
        what, them = ("permissions", "them") if len(missing) > 1 else ("permission", "it")
        raise PermissionMissing(
            f"You need the {what} {', '.join(missing)}{where}.",
            remedy=f"Ask an administrator for a role with {them}.",
        )


def require_may_grant(held: Collection[Permission], given: Iterable[Permission]) -> None:
    """Raise PermissionMissing if `given` has permissions that the caller does not have."""
    missing = sorted(set(given).difference(held))
    if missing:
        raise PermissionMissing(
            f"You cannot grant permissions that you do not have: {', '.join(missing)}.",
            remedy="Choose a role with fewer permissions.",
        )


def require_covers(held: Collection[Permission], theirs: Iterable[Permission], *, what: str) -> None:
    """Raise PermissionMissing if `theirs` has permissions that the caller lacks. `what` starts the sentence."""
    missing = sorted(set(theirs).difference(held))
    if missing:
        raise PermissionMissing(
            f"{what} has permissions that you do not have: {', '.join(missing)}.",
            remedy="Ask an administrator who has all of them.",
        )


Each = TypeVar("Each")


def _union_all(parts: Iterable[frozenset[Each]]) -> frozenset[Each]:
    return frozenset[Each]().union(*parts)
