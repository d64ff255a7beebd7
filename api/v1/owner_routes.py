"""Paths and permissions of operations that exist for the platform, for MSPs and for tenants."""

from collections.abc import Iterator
from typing import NamedTuple

from api.access import (
    ChangesMsp,
    ChangesPlatform,
    ChangesTenant,
    ReadsMsp,
    ReadsPlatform,
    ReadsTenant,
    RequiresPermission,
)
from nac.kit.permissions import Effect, Permission, PermissionLevel, permissions_at


class OwnerRoutes(NamedTuple):
    # Prefix of the paths, such as "/platform", and noun in the operation ids, such as "Platform".
    prefix: str
    noun: str
    reads: RequiresPermission
    manages: RequiresPermission


def list_tenant_and_msp_routes(
    read: Permission, manage: Permission, effect: Effect, *more: Effect, takes_everything: bool = False
) -> Iterator[OwnerRoutes]:
    """Yield the path prefix, noun and permissions of an operation, first for tenants, then for MSPs.

    With `takes_everything`, a change requires every permission of the level (tenant or MSP).
    """
    for reads, manages, prefix, noun in (
        (ReadsTenant, ChangesTenant, "/tenants/{tenant}", "Tenant"),
        (ReadsMsp, ChangesMsp, "/msps/{msp}", "Msp"),
    ):
        always = permissions_at(manages.level) if takes_everything else ()
        yield OwnerRoutes(prefix, noun, reads(read), manages(manage, effect, *more, always=always))


def list_owner_routes(
    read: Permission, manage: Permission, effect: Effect, *more: Effect, takes_everything: bool = False
) -> Iterator[OwnerRoutes]:
    yield from list_tenant_and_msp_routes(read, manage, effect, *more, takes_everything=takes_everything)
    always = permissions_at(PermissionLevel.PLATFORM) if takes_everything else ()
    yield OwnerRoutes(
        "/platform", "Platform", ReadsPlatform(read), ChangesPlatform(manage, effect, *more, always=always)
    )
