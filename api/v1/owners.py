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
from nac.accounts.permissions import Permission


class Routes(NamedTuple):
    # Of their paths, and the word of it in the names of operations.
    prefix: str
    noun: str
    reads: Requires
    manages: Requires


def of_tenants_and_msps(read: Permission, manage: Permission, effect: Effect, *more: Effect) -> Iterator[Routes]:
    yield Routes("/tenants/{tenant}", "Tenant", ReadsTenant(read), ChangesTenant(manage, effect, *more))
    yield Routes("/msps/{msp}", "Msp", ReadsMsp(read), ChangesMsp(manage, effect, *more))


def of_every_owner(read: Permission, manage: Permission, effect: Effect, *more: Effect) -> Iterator[Routes]:
    yield from of_tenants_and_msps(read, manage, effect, *more)
    yield Routes("/platform", "Platform", ReadsPlatform(read), ChangesPlatform(manage, effect, *more))
