"""A pool that radiusd has opened.

The replica contains the ready addresses. The claim file contains the addresses that radiusd has assigned since then
(ADR 0011).
"""

from collections import deque
from pathlib import Path
from typing import NamedTuple

from nac.cellformat.replica.records import PoolLeaseRecord, PoolStockRecord
from nac.pools.claims import Claim, ClaimsFile, parse_created_at


class GrantedAddress(NamedTuple):
    number: int
    grant: int
    address: str


class OpenPool:
    """Pool whose addresses this process assigns. Only one thread of one process may use an open pool at a time."""

    def __init__(self, path: Path, claims: ClaimsFile) -> None:
        # `stocked_at` of the replica's pool record when the ready addresses were read.
        self.stocked_at = 0
        self._claims = claims
        self._path = path
        # Grants before this time are not used: the claim file does not show whether another device has claimed their
        # addresses.
        self._made_at = parse_created_at(path.name)
        # Ready addresses by number, each with its grant.
        self._offered: dict[int, GrantedAddress] = {}
        self._ready: deque[int] = deque()
        # Number of the address that each device claimed last.
        self._numbers = claims.last_numbers()

    def restock(self, stocked_at: int, stock: PoolStockRecord | None) -> None:
        self.stocked_at = stocked_at
        offered = (GrantedAddress(*entry) for entry in stock.ready) if stock else ()
        self._offered = {each.number: each for each in offered if each.grant > self._made_at}
        self._ready = deque(self._offered)

    def take(self, mac: str, lease: PoolLeaseRecord | None, *, now: int) -> GrantedAddress | None:
        """Claim an address for the device, or return None if no address is ready.

        Prefers the address that the device has or had last, if no other device has claimed this address.
        """
        taken = self._again(mac) or (lease and self._find_leased(mac, lease)) or self._next(mac)
        if taken is not None:
            before = self._claims[taken.number].mac
            if self._numbers.get(before) == taken.number:
                del self._numbers[before]
            self._claims.put(taken.number, Claim(taken.grant, mac, now))
            self._numbers[mac] = taken.number
        return taken

    def close(self) -> None:
        self._claims.close()

    def _again(self, mac: str) -> GrantedAddress | None:
        """Address that this device claimed, if the replica does not have the claim yet."""
        number = self._numbers.get(mac)
        offered = None if number is None else self._offered.get(number)
        if offered is None or not self._has_entry(offered.number):
            return None
        claim = self._claims[offered.number]
        return offered if claim.mac == mac and claim.grant == offered.grant else None

    def _find_leased(self, mac: str, lease: PoolLeaseRecord) -> GrantedAddress | None:
        """Address that the device has according to the replica; None if another device has claimed the address since
        then.
        """
        if not self._has_entry(lease.number) or (lease.ready and lease.grant <= self._made_at):
            return None
        if _is_taken_by_another(self._claims[lease.number], lease.grant, mac):
            return None
        return GrantedAddress(lease.number, lease.grant, lease.address)

    def _next(self, mac: str) -> GrantedAddress | None:
        while self._ready:
            offered = self._offered[self._ready.popleft()]
            if self._has_entry(offered.number) and not _is_taken_by_another(
                self._claims[offered.number], offered.grant, mac
            ):
                return offered
        return None

    def _has_entry(self, number: int) -> bool:
        if number < len(self._claims):
            return True
        # The pool has grown, and with it the claim file.
        larger = ClaimsFile.open(self._path)
        if larger is None:
            return False
        self._claims.close()
        self._claims = larger
        return number < len(larger)


def _is_taken_by_another(claim: Claim, grant: int, mac: str) -> bool:
    """Whether the claim of another device conflicts with this grant of the address.

    A grant is the time in microseconds when the agent made the address ready. A claim conflicts if the claim has the
    same grant, or if the claim is later than the grant.
    """
    return claim.mac != mac and claim.grant > 0 and (claim.grant == grant or (claim.at + 1) * 1_000_000 > grant)
