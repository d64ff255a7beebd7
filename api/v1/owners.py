"""Routes that are the same for the platform, for an MSP and for a tenant."""

from collections.abc import Iterator
from typing import NamedTuple

from api.access import (
    ChangesMsp,
    ChangesPlatform,
    ChangesTenant,
    ReadsMsp,
    ReadsPlatform,
    ReadsTenant,
    Requires,
)
from nac.accounts.effects import Effect
from nac.accounts.permissions import Level, Permission, permissions_at


class OwnerRoutes(NamedTuple):
    # Of their paths, and the word of it in the names of operations.
    prefix: str
    noun: str
    reads: Requires
    manages: Requires


def of_tenants_and_msps(
    read: Permission, manage: Permission, effect: Effect, *more: Effect, takes_everything: bool = False
) -> Iterator[OwnerRoutes]:
    """`takes_everything`: to manage it takes all that somebody there could have."""
    for reads, manages, prefix, noun in (
        (ReadsTenant, ChangesTenant, "/tenants/{tenant}", "Tenant"),
        (ReadsMsp, ChangesMsp, "/msps/{msp}", "Msp"),
    ):
        always = permissions_at(manages.level) if takes_everything else ()
        yield OwnerRoutes(prefix, noun, reads(read), manages(manage, effect, *more, always=always))


def of_every_owner(
    read: Permission, manage: Permission, effect: Effect, *more: Effect, takes_everything: bool = False
) -> Iterator[OwnerRoutes]:
    yield from of_tenants_and_msps(read, manage, effect, *more, takes_everything=takes_everything)
    always = permissions_at(Level.PLATFORM) if takes_everything else ()
    yield OwnerRoutes(
        "/platform", "Platform", ReadsPlatform(read), ChangesPlatform(manage, effect, *more, always=always)
    )
