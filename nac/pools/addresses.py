"""The rows of a pool: one for each of its addresses, and of those that have left it as long as somebody has them."""

from itertools import islice
from typing import cast

from sqlalchemy.orm import Session

from nac.clock import epoch_microseconds
from nac.errors import Conflict
from nac.models import Pool
from nac.pools import repository
from nac.pools.extent import PoolExtent, PoolKind, parse_extent

_INSERT_BATCH = 65_536


class PoolsOverlap(Conflict):
    """Another pool of the tenant has these addresses."""


def build_extent(pool: Pool) -> PoolExtent:
    """Of its ranges and exclusions. Raises InvalidInput or SeveralMistakes."""
    length = None if pool.kind == "ipv4" else pool.prefix_length
    return parse_extent(cast(PoolKind, pool.kind), pool.ranges, pool.exclusions, length)


def require_no_overlap(session: Session, pool: Pool, extent: PoolExtent) -> None:
    """Raises PoolsOverlap."""
    for other in repository.list_all(session, pool.tenant_id):
        shared = "" if other.id == pool.id else extent.first_shared(build_extent(other))
        if shared:
            raise PoolsOverlap(
                f"Pool {other.name!r} has {shared} already.",
                place="ranges",
                remedy="An address is in one pool of a tenant alone: leave it out of one (--exclude).",
            )


def sync_addresses(session: Session, pool: Pool, extent: PoolExtent) -> None:
    """The rows of `pool` to what its extent says. Raises PoolsOverlap, or Conflict where one that goes is reserved.

    Only rows that change are locked, all in one statement: cells go on with the others meanwhile.
    """
    if elsewhere := repository.list_leaving_elsewhere(session, pool, extent.whole_bounds()):
        shown = ", ".join(f"{address} of {name}" for address, name in elsewhere)
        raise PoolsOverlap(
            f"Devices still have addresses that have left other pools: {shown}.",
            place="ranges",
            remedy="Wait until they have given them up: ./admit pool leases",
        )
    if reserved := repository.list_reserved_outside(session, pool, extent.bounds()):
        raise Conflict(
            f"{', '.join(reserved)} is reserved for a device.",
            place="ranges",
            remedy="Take that back first: ./admit pool set NAME --unreserve MAC",
        )
    addresses = extent.addresses()
    while part := list(islice(addresses, _INSERT_BATCH)):
        # A number may have been another address's: its grants go on from there, whatever they were.
        repository.insert_addresses(session, pool, part, grant=epoch_microseconds())
    # Last, since cells may wait for these rows until the transaction ends.
    repository.remove_outside(session, pool, extent.bounds())
    session.expire_all()
