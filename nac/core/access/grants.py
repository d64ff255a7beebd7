"""Permissions of a caller for a tenant, an MSP or the platform. This module does not access the database."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeVar
from uuid import UUID

from sqlalchemy import ColumnElement, and_

from nac.kit.errors import Forbidden
from nac.kit.ids import MspId, TenantId
from nac.kit.permissions import Permission, PermissionLevel


@dataclass(frozen=True, slots=True)
class Owner:
    """Owner of rows such as memberships, roles and tokens: an MSP or a tenant; the platform if both ids are None."""

    msp_id: MspId | None = None
    tenant_id: TenantId | None = None

    def __post_init__(self) -> None:
        if self.msp_id is not None and self.tenant_id is not None:
            raise ValueError("an MSP or a tenant, not both")

    @property
    def level(self) -> PermissionLevel:
        if self.tenant_id is not None:
            return PermissionLevel.TENANT
        return PermissionLevel.PLATFORM if self.msp_id is None else PermissionLevel.MSP

    def columns(self) -> Mapping[str, Any]:
        return {"msp_id": self.msp_id, "tenant_id": self.tenant_id}

    def owns(self, table: Any) -> ColumnElement[bool]:  # noqa: ANN401 -- any model with these two columns
        """SQL condition for rows of this owner. Rows of the MSP's tenants do not match.

        The condition uses `=`, because indexes do not support IS NOT DISTINCT FROM.
        """
        return and_(table.msp_id == self.msp_id, table.tenant_id == self.tenant_id)


class PermissionMissing(Forbidden):
    """You do not have the required permission."""


@dataclass(frozen=True, slots=True)
class TenantRef:
    """Ids of a tenant and of its MSP."""

    tenant_id: TenantId
    msp_id: MspId
    is_msp_suspended: bool = False


@dataclass(frozen=True, slots=True)
class MspRef:
    msp_id: MspId
    is_suspended: bool = False


# Placeholders for unknown ids. With these placeholders, Admit takes the same time to reject unknown and foreign ids.
UNKNOWN_MSP: Final = MspRef(MspId(UUID(int=0)))
UNKNOWN_TENANT: Final = TenantRef(TenantId(UUID(int=0)), UNKNOWN_MSP.msp_id)


@dataclass(frozen=True, slots=True)
class Grant:
    """Permissions for a tenant or an MSP. If both ids are None, the permissions are for the platform."""

    permissions: frozenset[Permission]
    msp_id: MspId | None = None
    tenant_id: TenantId | None = None
    # Those tenants of the MSP for which the grant is valid. None for all tenants of the MSP, including future tenants.
    chosen: frozenset[TenantId] | None = None
    # Id of the membership that gives this grant, if the person has not accepted the membership yet; otherwise None.
    new_membership: UUID | None = None
    # Requirement for sign-ins without the single sign-on of the tenant or MSP. `two-factors`: the sign-in must have two
    # factors. `sign-on`: without this single sign-on, the person cannot use the grant.
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
                # The grant is for some tenants only, so it gives only read permissions on the MSP itself. Other
                # permissions on the MSP would affect all of its tenants.
                return frozenset(
                    each for each in self.permissions if each.level is PermissionLevel.MSP and each.is_read
                )
        return self.permissions


@dataclass(frozen=True, slots=True)
class TenantReach:
    """Tenants that a caller can access.

    `everything` means all tenants of the platform. `msps` means all tenants of these MSPs. `chosen` has tenants from
    grants that are valid for some tenants of an MSP. `tenants` has tenants from grants on a tenant.
    """

    everything: bool
    msps: frozenset[MspId]
    chosen: frozenset[TenantId]
    tenants: frozenset[TenantId]

    def covers(self, place: TenantRef) -> bool:
        if self.everything or place.tenant_id in self.tenants:
            return True
        return not place.is_msp_suspended and (place.msp_id in self.msps or place.tenant_id in self.chosen)


@dataclass(frozen=True, slots=True)
class TokenMaker:
    """Person responsible for a token: the person created the token, or created another token that created this
    token."""

    person_id: UUID
    # Name of the person in the audit log.
    actor: str
    # MSP or tenant whose single sign-on the person used. The platform if the person did not use single sign-on.
    via: Owner = field(default_factory=Owner)


@dataclass(frozen=True, slots=True)
class Principal:
    """A caller and their grants. The caller is a signed-in person or a token."""

    # Kind and name for the audit log, such as `person:ann@example.com` or `token:monitoring`.
    actor: str
    grants: tuple[Grant, ...] = ()
    # Grants that the caller cannot use, because they require another kind of sign-in.
    withheld: tuple[Grant, ...] = ()
    # The signed-in person, or the person responsible for the token. None for tokens created on the command line.
    maker: TokenMaker | None = None
    # Id of a token; None for a person.
    token_id: UUID | None = None

    def on_tenant(self, place: TenantRef) -> frozenset[Permission]:
        """Return all permissions of the caller for the tenant, from grants on the tenant, its MSP and the platform.

        Permissions of MSP level have no effect on a tenant.
        """
        return _union_all(grant.permissions for grant in self.grants if grant.covers_tenant(place))

    def level_on_tenant(self, place: TenantRef, permission: Permission) -> PermissionLevel:
        """Return the highest level of the grants that give this permission on the tenant.

        The principal must have the permission.
        """
        return max(each.level for each in self.grants if permission in each.permissions and each.covers_tenant(place))

    def on_msp(self, place: MspRef) -> frozenset[Permission]:
        """Return the permissions of the caller for the MSP.

        While the MSP is suspended, only grants on the platform count.
        """
        return (
            self.on_platform() if place.is_suspended else _union_all(each.on_msp(place.msp_id) for each in self.grants)
        )

    def on_platform(self) -> frozenset[Permission]:
        return _union_all(grant.permissions for grant in self.grants if grant.level is PermissionLevel.PLATFORM)

    def get_only_msp(self) -> MspId | None:
        """Return the MSP if all grants on MSPs and on the platform are on this MSP, otherwise None. Ignores grants on
        tenants."""
        found = {grant.msp_id for grant in self.grants if grant.tenant_id is None}
        return found.pop() if len(found) == 1 else None

    def msps(self, permission: Permission) -> frozenset[MspId] | None:
        """MSPs for which the caller has the permission, including suspended MSPs. None means all MSPs."""
        if permission in self.on_platform():
            return None
        own = {each.msp_id for each in self.grants if each.level is PermissionLevel.MSP and each.msp_id is not None}
        return frozenset(each for each in own if permission in self.on_msp(MspRef(each)))

    def reach(self, permission: Permission) -> TenantReach:
        """Tenants for which the caller has the permission. Grants on a suspended MSP do not count."""
        grants = [each for each in self.grants if permission in each.permissions]
        of_msps = [each for each in grants if each.level is PermissionLevel.MSP]
        return TenantReach(
            everything=any(each.level is PermissionLevel.PLATFORM for each in grants),
            msps=frozenset(each.msp_id for each in of_msps if each.msp_id is not None and each.chosen is None),
            chosen=_union_all(each.chosen or frozenset() for each in of_msps),
            tenants=frozenset(each.tenant_id for each in grants if each.tenant_id is not None),
        )

    def tenants_of(self, msp_id: MspId) -> frozenset[TenantId] | None:
        """Return those tenants of the MSP for which the caller has grants.

        None means all tenants of the MSP: the caller has a grant on the platform, or a grant on the whole MSP.
        """
        if any(
            each.level is PermissionLevel.PLATFORM or (each.msp_id == msp_id and each.chosen is None)
            for each in self.grants
        ):
            return None
        return _union_all(each.chosen or frozenset() for each in self.grants if each.msp_id == msp_id)


def filter_grants_of_owner(grants: Iterable[Grant], owner: Owner) -> tuple[Grant, ...]:
    """Return the grants on this owner (MSP or tenant). Excludes grants on tenants of the MSP.

    A sign-in by the owner's identity provider is valid only for the returned grants.
    """
    return tuple(each for each in grants if (each.msp_id, each.tenant_id) == (owner.msp_id, owner.tenant_id))


def require_permissions(
    held: Collection[Permission], *wanted: Permission, level: PermissionLevel | None = None
) -> None:
    """Raise PermissionMissing if a permission in `wanted` is not in `held` (the caller's permissions).

    If `level` is set, the error says at which level the permission is missing.
    """
    missing = sorted(set(wanted).difference(held))
    if missing:
        where = f" on the {level.name.lower()}" if level is not None else ""
        what, them = ("permissions", "these permissions") if len(missing) > 1 else ("permission", "this permission")
        raise PermissionMissing(
            f"You need the {what} {', '.join(missing)}{where}.",
            remedy=f"Ask an administrator for a role with {them}.",
        )


def require_may_grant(held: Collection[Permission], given: Iterable[Permission]) -> None:
    """Raise PermissionMissing if `given` contains a permission that is not in `held`."""
    missing = sorted(set(given).difference(held))
    if missing:
        raise PermissionMissing(
            f"You cannot grant permissions that you do not have: {', '.join(missing)}.",
            remedy="Choose a role with fewer permissions.",
        )


def require_covers(held: Collection[Permission], theirs: Iterable[Permission], *, what: str) -> None:
    """Raise PermissionMissing if `theirs` has a permission that is not in `held`. The message starts with `what`."""
    missing = sorted(set(theirs).difference(held))
    if missing:
        raise PermissionMissing(
            f"{what} has permissions that you do not have: {', '.join(missing)}.",
            remedy="Ask an administrator who has all these permissions.",
        )


Each = TypeVar("Each")


def _union_all(parts: Iterable[frozenset[Each]]) -> frozenset[Each]:
    return frozenset[Each]().union(*parts)
