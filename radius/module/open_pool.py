"""One pool in radiusd: what is ready by the replica, and what was taken since by the file of claims (ADR 0011)."""

from collections import deque
from pathlib import Path
from typing import NamedTuple

from nac.pools.claims import Claim, ClaimsFile, parse_created_at
from nac.replica.records import PoolLeaseRecord, PoolStockRecord


class Taken(NamedTuple):
    number: int
    grant: int
    address: str


class OpenPool:
    """Not for several threads, nor for two processes at a time."""

    def __init__(self, path: Path, claims: ClaimsFile) -> None:
        # Of the record in the replica whose stock it holds.
        self.stocked_at = 0
        self._claims = claims
        self._path = path
        # What was made ready before, others may have taken: this file does not tell.
        self._made_at = parse_created_at(path.name)
        # By number: what may be taken, under which grant.
        self._offered: dict[int, Taken] = {}
        self._ready: deque[int] = deque()
        # Of each device the number that it took last.
        self._numbers = claims.last_numbers()

    def restock(self, stocked_at: int, stock: PoolStockRecord | None) -> None:
        self.stocked_at = stocked_at
        offered = (Taken(*entry) for entry in stock.ready) if stock else ()
        self._offered = {each.number: each for each in offered if each.grant > self._made_at}
        self._ready = deque(self._offered)

    def take(self, mac: str, lease: PoolLeaseRecord | None, *, now: int) -> Taken | None:
        """The address that the device has already or had last, where nobody else has it; else one that is ready."""
        taken = self._again(mac) or (lease and self._leased(mac, lease)) or self._next(mac)
        if taken is not None:
            before = self._claims[taken.number].mac
            if self._numbers.get(before) == taken.number:
                del self._numbers[before]
            self._claims.put(taken.number, Claim(taken.grant, mac, now))
            self._numbers[mac] = taken.number
        return taken

    def close(self) -> None:
        self._claims.close()

    def _again(self, mac: str) -> Taken | None:
        """What it has taken, and the replica does not know of yet."""
        number = self._numbers.get(mac)
        offered = None if number is None else self._offered.get(number)
        if offered is None or not self._has_entry(offered.number):
            return None
        claim = self._claims[offered.number]
        return offered if claim.mac == mac and claim.grant == offered.grant else None

    def _leased(self, mac: str, lease: PoolLeaseRecord) -> Taken | None:
        """What it has or had by the replica, unless another has taken that meanwhile."""
        if not self._has_entry(lease.number) or (lease.ready and lease.grant <= self._made_at):
            return None
        if _is_anothers(self._claims[lease.number], lease.grant, mac):
            return None
        return Taken(lease.number, lease.grant, lease.address)

    def _next(self, mac: str) -> Taken | None:
        while self._ready:
            offered = self._offered[self._ready.popleft()]
            if self._has_entry(offered.number) and not _is_anothers(self._claims[offered.number], offered.grant, mac):
                return offered
        return None

    def _has_entry(self, number: int) -> bool:
        if number < len(self._claims):
            return True
        # The pool has grown, and its file with it.
        larger = ClaimsFile.open(self._path)
        if larger is None:
            return False
        self._claims.close()
        self._claims = larger
        return number < len(larger)


def _is_anothers(claim: Claim, grant: int, mac: str) -> bool:
    """Whether another device took it under this grant or, by what the replica knew of it then, under an earlier one but
    after the moment (microseconds) that this one is named after."""
    return claim.mac != mac and claim.grant > 0 and (claim.grant == grant or (claim.at + 1) * 1_000_000 > grant)
