"""Rows of a pool's addresses: functions to insert, remove and check them.

If you remove an address that a device or cell has, its row remains until the address is free.
"""

from itertools import islice
from typing import cast

from sqlalchemy.orm import Session

from nac.kit.advice import Advice, NextStep
from nac.kit.clock import epoch_microseconds
from nac.kit.errors import Conflict
from nac.models import Pool
from nac.pools import repository
from nac.pools.extent import PoolExtent, PoolKind, parse_extent

_INSERT_BATCH = 65_536


class PoolsOverlap(Conflict):
    """Another pool of the tenant already contains an address of this pool."""


def build_extent(pool: Pool) -> PoolExtent:
    """Return the addresses of a pool: its ranges without its exclusions. Raises InvalidInput or SeveralMistakes."""
    length = None if pool.kind == "ipv4" else pool.prefix_length
    return parse_extent(cast(PoolKind, pool.kind), pool.ranges, pool.exclusions, length)


def require_no_overlap(session: Session, pool: Pool, extent: PoolExtent) -> None:
    """Raise PoolsOverlap if another pool of the tenant has an address of this pool."""
    for other in repository.list_all(session, pool.tenant_id):
        shared = "" if other.id == pool.id else extent.first_shared(build_extent(other))
        if shared:
            raise PoolsOverlap(
                f"Pool {other.name!r} already has {shared}.",
                place="ranges",
                remedy=Advice(
                    "Each address can be in only one pool of a tenant. Exclude the address from one of the two pools.",
                    NextStep(parameters={"exclusions": ""}),
                ),
            )


def sync_addresses(session: Session, pool: Pool, extent: PoolExtent) -> None:
    """Insert and remove address rows of `pool`, so that the pool has exactly the addresses in `extent`.

    Raises PoolsOverlap, or Conflict if a removed address is reserved. Locks only changed rows, so that cells can
    assign all other addresses meanwhile.
    """
    if elsewhere := repository.list_leaving_elsewhere(session, pool, extent.whole_bounds()):
        examples = ", ".join(f"{address} of {name}" for address, name in elsewhere)
        raise PoolsOverlap(
            f"Devices still have addresses that were removed from other pools: {examples}.",
            place="ranges",
            remedy=Advice("Wait until the devices release the addresses", "listPoolLeases"),
        )
    if reserved := repository.list_reserved_outside(session, pool, extent.bounds()):
        raise Conflict(
            f"You cannot remove addresses that are reserved for devices: {', '.join(reserved)}.",
            place="ranges",
            remedy=Advice("Cancel the reservation first", NextStep("updatePool", {"reserved": ""})),
        )
    addresses = extent.addresses()
    while part := list(islice(addresses, _INSERT_BATCH)):
        # A deleted address may have had the same address number. The new grant is higher than all grants of that
        # address.
        repository.insert_addresses(session, pool, part, grant=epoch_microseconds())
    # Do this last, because cells may wait for these rows until the transaction ends.
    repository.remove_outside(session, pool, extent.bounds())
    session.expire_all()
