"""The rows of a pool: one for each of its addresses, and of those that have left it as long as somebody has them."""

from itertools import islice
from typing import cast

from sqlalchemy.orm import Session

from nac.clock import epoch_microseconds
from nac.errors import Conflict
from nac.models import Pool
from nac.pools import repository
from nac.pools.extent import Extent, Kind, read_extent

_INSERTED_AT_ONCE = 65_536


class PoolsOverlap(Conflict):
    """Another pool of the tenant has these addresses."""


def extent_of(pool: Pool) -> Extent:
    """Of its ranges and exclusions. Raises InvalidInput or SeveralMistakes."""
    length = None if pool.kind == "ipv4" else pool.prefix_length
    return read_extent(cast(Kind, pool.kind), pool.ranges, pool.exclusions, length)


def require_apart(session: Session, pool: Pool, extent: Extent) -> None:
    """Raises PoolsOverlap."""
    for other in repository.list_all(session, pool.tenant_id):
        shared = "" if other.id == pool.id else extent.first_shared(extent_of(other))
        if shared:
            raise PoolsOverlap(
                f"Pool {other.name!r} has {shared} already.",
                place="ranges",
                remedy="An address is in one pool of a tenant alone: leave it out of one (--exclude).",
            )


def bring_addresses(session: Session, pool: Pool, extent: Extent) -> None:
    """The rows of `pool` to what its extent says. Raises PoolsOverlap, or Conflict where one that goes is reserved.

    Only rows that change are locked, all in one statement: cells go on with the others meanwhile.
    """
    if elsewhere := repository.leaving_elsewhere(session, pool, extent.whole_bounds()):
        shown = ", ".join(f"{address} of {name}" for address, name in elsewhere)
        raise PoolsOverlap(
            f"Devices still have addresses that have left other pools: {shown}.",
            place="ranges",
            remedy="Wait until they have given them up: ./admit pool leases",
        )
    if reserved := repository.reserved_outside(session, pool, extent.bounds()):
        raise Conflict(
            f"{', '.join(reserved)} is reserved for a device.",
            place="ranges",
            remedy="Take that back first: ./admit pool set NAME --unreserve MAC",
        )
    addresses = extent.addresses()
    while part := list(islice(addresses, _INSERTED_AT_ONCE)):
        # A number may have been another address's: its grants go on from there, whatever they were.
        repository.put_in(session, pool, part, grant=epoch_microseconds())
    # Last, since cells may wait for these rows until the transaction ends.
    repository.keep_only(session, pool, extent.bounds())
    session.expire_all()
