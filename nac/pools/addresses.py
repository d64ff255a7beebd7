"""The rows of a pool: one for each of its addresses, and of those that have left it as long as somebody has them."""

from typing import cast

from sqlalchemy import insert
from sqlalchemy.orm import Session

from nac.clock import epoch_microseconds
from nac.errors import Conflict
from nac.models import Pool, PoolAddress
from nac.pools import repository
from nac.pools.extent import Extent, Kind, read_extent


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
    """The rows of `pool` to what its extent says. Raises PoolsOverlap, or Conflict where one that goes is reserved."""
    wanted = dict.fromkeys(extent.addresses())
    if elsewhere := repository.addresses_elsewhere(session, pool, list(wanted)):
        shown = ", ".join(f"{address} of {name}" for address, name in elsewhere)
        raise PoolsOverlap(
            f"Devices still have addresses that have left other pools: {shown}.",
            place="ranges",
            remedy="Wait until they have given them up: ./admit pool leases",
        )
    known = repository.locked_addresses(session, pool)
    gone = [each for each in known if each.address not in wanted]
    if reserved := [each.address for each in gone if each.reserved_for]:
        raise Conflict(
            f"{', '.join(reserved[:3])} is reserved for a device.",
            place="ranges",
            remedy="Take that back first: ./admit pool set NAME --unreserve MAC",
        )
    repository.delete_addresses(session, pool, [each.number for each in gone if each.state == "free"])
    repository.mark_leaving(session, pool, [each.number for each in gone if each.state != "free"], leaving=True)
    back = [each.number for each in known if each.leaving and each.address in wanted]
    repository.mark_leaving(session, pool, back, leaving=False)
    taken = {each.number for each in known}
    present = {each.address for each in known}
    new = [address for address in wanted if address not in present]
    numbers = (number for number in range(len(taken) + len(new)) if number not in taken)
    # A number may have been another address's: its grants go on from there, whatever they were.
    grant = epoch_microseconds()
    rows = [
        {
            "pool_id": pool.id,
            "number": number,
            "tenant_id": pool.tenant_id,
            "address": address,
            "grant_number": grant,
        }
        for number, address in zip(numbers, new, strict=False)
    ]
    if rows:
        session.execute(insert(PoolAddress), rows)
    session.expire_all()
