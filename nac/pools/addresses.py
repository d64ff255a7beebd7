"""The rows of a pool: one per address, and those of removed addresses while devices still have them."""

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
    """Another pool of the tenant has these addresses."""


def build_extent(pool: Pool) -> PoolExtent:
    """Return the extent of a pool's ranges and exclusions. Raises InvalidInput or SeveralMistakes."""
    length = None if pool.kind == "ipv4" else pool.prefix_length
    return parse_extent(cast(PoolKind, pool.kind), pool.ranges, pool.exclusions, length)


def require_no_overlap(session: Session, pool: Pool, extent: PoolExtent) -> None:
    """Raise PoolsOverlap if another pool shares an address."""
    for other in repository.list_all(session, pool.tenant_id):
        shared = "" if other.id == pool.id else extent.first_shared(build_extent(other))
        if shared:
            raise PoolsOverlap(
                f"Pool {other.name!r} already has {shared}.",
                place="ranges",
                remedy=Advice(
                    "Each address can be in only one pool of a tenant. Exclude it from one of them.",
                    NextStep(parameters={"exclusions": ""}),
                ),
            )


def sync_addresses(session: Session, pool: Pool, extent: PoolExtent) -> None:
    """Update the rows of `pool` to its extent. Raises PoolsOverlap, or Conflict if a removed address is reserved.

    One statement locks only the changed rows, so cells continue with the others.
    """
    if elsewhere := repository.list_leaving_elsewhere(session, pool, extent.whole_bounds()):
        examples = ", ".join(f"{address} of {name}" for address, name in elsewhere)
        raise PoolsOverlap(
            f"Devices still have addresses that were removed from other pools: {examples}.",
            place="ranges",
            remedy=Advice("Wait until the devices release them", "listPoolLeases"),
        )
    if reserved := repository.list_reserved_outside(session, pool, extent.bounds()):
        raise Conflict(
            f"Reserved for a device: {', '.join(reserved)}.",
            place="ranges",
            remedy=Advice("Cancel the reservation first", NextStep("updatePool", {"reserved": ""})),
        )
    addresses = extent.addresses()
    while part := list(islice(addresses, _INSERT_BATCH)):
        # Another address may have had the number before. This grant is higher than any of its grants.
        repository.insert_addresses(session, pool, part, grant=epoch_microseconds())
    # Last, because cells can wait for these rows until the transaction ends.
    repository.remove_outside(session, pool, extent.bounds())
    session.expire_all()
