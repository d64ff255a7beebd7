"""Who may do what where: decided of frozen values, without a database."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Final, Literal, TypeVar
from uuid import UUID

from nac.accounts.owners import Owner
from nac.accounts.permissions import Level, Permission
from nac.errors import Forbidden
from nac.ids import MspId, TenantId


class PermissionMissing(Forbidden):
    """This is not permitted to you."""


@dataclass(frozen=True, slots=True)
class TenantPlace:
    """A tenant and whose it is."""

    tenant_id: TenantId
    msp_id: MspId
    is_msp_suspended: bool = False


@dataclass(frozen=True, slots=True)
class MspPlace:
    msp_id: MspId
    is_suspended: bool = False


# Looked at in place of what there is not, which so takes as long to be refused as what is another's.
NO_MSP: Final = MspPlace(MspId(UUID(int=0)))
NO_TENANT: Final = TenantPlace(TenantId(UUID(int=0)), NO_MSP.msp_id)


@dataclass(frozen=True, slots=True)
class Grant:
    """Permissions on a tenant, on an MSP, or, where neither is named, on the platform."""

    permissions: frozenset[Permission]
    msp_id: MspId | None = None
    tenant_id: TenantId | None = None
    # Of an MSP's tenants those alone; None for all of them, those to come included.
    chosen: frozenset[TenantId] | None = None
    # The membership that it is of, where the person has not come in by it before.
    new_membership: UUID | None = None
    # What a sign-in by the person's own means has to be for it: none is enough for `sign-on`.
    wants: Literal["sign-on", "two-factors"] | None = None

    @property
    def owner(self) -> Owner:
        return Owner(self.msp_id, self.tenant_id)

    @property
    def level(self) -> Level:
        if self.tenant_id is not None:
            return Level.TENANT
        return Level.PLATFORM if self.msp_id is None else Level.MSP

    def covers_tenant(self, place: TenantPlace) -> bool:
        match self.level:
            case Level.TENANT:
                return self.tenant_id == place.tenant_id
            case Level.MSP:
                if place.is_msp_suspended:
                    return False
                return self.msp_id == place.msp_id and (self.chosen is None or place.tenant_id in self.chosen)
        return True

    def on_msp(self, msp_id: MspId) -> frozenset[Permission]:
        match self.level:
            case Level.TENANT:
                return frozenset()
            case Level.MSP if self.msp_id != msp_id:
                return frozenset()
            case Level.MSP if self.chosen is not None:
                # What reaches all tenants of the MSP is not for who was given some.
                return frozenset(each for each in self.permissions if each.level is Level.MSP and each.is_read)
        return self.permissions


@dataclass(frozen=True, slots=True)
class Reach:
    """Tenants: all of the platform, all of these MSPs, these of their MSPs, and these whatever becomes of their MSP."""

    everything: bool
    msps: frozenset[MspId]
    chosen: frozenset[TenantId]
    tenants: frozenset[TenantId]


@dataclass(frozen=True, slots=True)
class Maker:
    """A person who answers for tokens, whoever made them in between."""

    person_id: UUID
    # As the audit log names the person.
    actor: str
    # Whose provider had named the person; the platform where none had.
    via: Owner = field(default_factory=Owner)


@dataclass(frozen=True, slots=True)
class Principal:
    """Who asks: a person that has signed in, or a token. Without grants it may nothing."""

    # Kind and name, as the audit log keeps it: person:ann@example.com, token:monitoring.
    actor: str
    grants: tuple[Grant, ...] = ()
    # What the person has only when signed in in another way.
    withheld: tuple[Grant, ...] = ()
    # Of a person; of a token who answers for it, None for one of the command line.
    maker: Maker | None = None
    # Of a token.
    token_id: UUID | None = None

    def on_tenant(self, place: TenantPlace) -> frozenset[Permission]:
        """Of what level they ever are: on a tenant, those of an MSP say nothing."""
        return _union(grant.permissions for grant in self.grants if grant.covers_tenant(place))

    def level_on_tenant(self, place: TenantPlace, permission: Permission) -> Level:
        """From how high up it has the permission there, which it has."""
        return max(each.level for each in self.grants if permission in each.permissions and each.covers_tenant(place))

    def on_msp(self, place: MspPlace) -> frozenset[Permission]:
        """Nothing that the MSP itself has given, while it is suspended."""
        return self.on_platform() if place.is_suspended else _union(each.on_msp(place.msp_id) for each in self.grants)

    def on_platform(self) -> frozenset[Permission]:
        return _union(grant.permissions for grant in self.grants if grant.level is Level.PLATFORM)

    def only_msp(self) -> MspId | None:
        """The one MSP that it has grants on; None where there is none, or a choice."""
        found = {grant.msp_id for grant in self.grants if grant.tenant_id is None}
        return found.pop() if len(found) == 1 else None

    def msps(self, permission: Permission) -> frozenset[MspId] | None:
        """Those that it has the permission on, were none of them suspended; None for all."""
        if permission in self.on_platform():
            return None
        own = {each.msp_id for each in self.grants if each.level is Level.MSP and each.msp_id is not None}
        return frozenset(each for each in own if permission in self.on_msp(MspPlace(each)))

    def reach(self, permission: Permission) -> Reach:
        """The tenants that it has the permission on; a suspended MSP's people reach nothing by its grants."""
        grants = [each for each in self.grants if permission in each.permissions]
        of_msps = [each for each in grants if each.level is Level.MSP]
        return Reach(
            everything=any(each.level is Level.PLATFORM for each in grants),
            msps=frozenset(each.msp_id for each in of_msps if each.msp_id is not None and each.chosen is None),
            chosen=_union(each.chosen or frozenset() for each in of_msps),
            tenants=frozenset(each.tenant_id for each in grants if each.tenant_id is not None),
        )

    def tenants_of(self, msp_id: MspId) -> frozenset[TenantId] | None:
        """Of the MSP's tenants those that it sees because of a grant on the MSP or the platform; None for all."""
        if any(each.level is Level.PLATFORM or (each.msp_id == msp_id and each.chosen is None) for each in self.grants):
            return None
        return _union(each.chosen or frozenset() for each in self.grants if each.msp_id == msp_id)


def only_of(grants: Iterable[Grant], owner: Owner) -> tuple[Grant, ...]:
    """Those that the owner has given itself: all that its own provider can vouch for."""
    return tuple(each for each in grants if (each.msp_id, each.tenant_id) == (owner.msp_id, owner.tenant_id))


def require(held: Collection[Permission], *wanted: Permission, level: Level | None = None) -> None:
    """`level` is where they are asked for, if that is told. Raises PermissionMissing, with all that are missing."""
    missing = sorted(set(wanted).difference(held))
    if missing:
        where = f" on the {level.name.lower()}" if level is not None else ""
        what, them = ("permissions", "them") if len(missing) > 1 else ("permission", "it")
        raise PermissionMissing(
            f"This takes the {what} {', '.join(missing)}{where}.",
            remedy=f"Ask an administrator for a role that has {them}.",
        )


def require_not_more(held: Collection[Permission], given: Iterable[Permission]) -> None:
    """Nobody gives what he has not got himself. Raises PermissionMissing."""
    missing = sorted(set(given).difference(held))
    if missing:
        raise PermissionMissing(
            f"You cannot give what you do not have: {', '.join(missing)}.", remedy="Choose a role with less."
        )


def require_covers(held: Collection[Permission], theirs: Iterable[Permission], *, what: str) -> None:
    """Nobody takes from what holds more. `what` begins the sentence. Raises PermissionMissing."""
    missing = sorted(set(theirs).difference(held))
    if missing:
        raise PermissionMissing(
            f"{what} holds permissions that you do not have: {', '.join(missing)}.",
            remedy="Ask an administrator who has all of them.",
        )


Each = TypeVar("Each")


def _union(parts: Iterable[frozenset[Each]]) -> frozenset[Each]:
    return frozenset[Each]().union(*parts)
