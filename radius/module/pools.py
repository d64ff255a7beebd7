"""Addresses out of pools, put into the reply: found in the replica, taken in the file of claims (ADR 0011)."""

import fcntl
import ipaddress
from collections import deque
from pathlib import Path
from typing import NamedTuple, TextIO

from nac.pools.claims import Claim, Claims, made_at
from nac.pools.extent import ATTRIBUTE
from nac.replica.records import PoolLeaseRecord, PoolRecord, PoolStockRecord, SlotRecord
from nac.replica.store import ReplicaView
from nac.vendors import ReplyPair
from radius.module.cell import Cell
from radius.module.decision import Case
from radius.module.policies import Outcome

# What was taken so lately may not be in the replica yet, whatever that says.
RECENT_SECONDS = 30
# Pools of the tenants of one cell that are held open; each is a file.
MAX_OPEN_POOLS = 500


class Taken(NamedTuple):
    number: int
    grant: int
    address: str


class NoAddress(Exception):
    """Why there is none: a reason of nac.reasons, and what that does not tell."""

    def __init__(self, reason: str, detail: str, *, may_go_without: bool = False) -> None:
        super().__init__(reason, detail)
        self.reason = reason
        self.detail = detail
        self.may_go_without = may_go_without


class AddressGiver:
    """Of one radiusd; not for several threads. Its claims are its own from the first address to its end."""

    def __init__(self, cell: Cell) -> None:
        self._replica = cell.replica
        self._directory = Path(cell.settings.claims_directory) if cell.settings.claims_directory else None
        self._owner: TextIO | None = None
        # By the name of their files.
        self._pools: dict[str, OpenPool] = {}

    def complete(self, case: Case, slot: SlotRecord, outcome: Outcome) -> Outcome:
        """The outcome with an address of each pool in its reply, or a deny where one has none and admits nobody
        without."""
        given: list[ReplyPair] = []
        addresses: list[tuple[str, int, int]] = []
        without: list[str] = []
        with self._replica.begin() as view:
            for attribute, name in outcome.pools:
                try:
                    fixed = _of_endpoint(case, attribute)
                    if fixed:
                        given.append((attribute, ":=", fixed))
                        continue
                    pool_id, taken = self._take(case, slot, view, attribute, name)
                except NoAddress as none:
                    if not none.may_go_without:
                        return outcome.refused(none.reason, none.detail)
                    without.append(none.detail)
                else:
                    given.append((attribute, ":=", taken.address))
                    addresses.append((pool_id, taken.number, taken.grant))
        detail = "; ".join((*filter(None, (outcome.detail,)), *(f"no address: {why}" for why in without)))
        return outcome._replace(
            reply=(*outcome.reply, *given), sent=(*outcome.sent, *given), detail=detail, addresses=tuple(addresses)
        )

    def _take(self, case: Case, slot: SlotRecord, view: ReplicaView, attribute: str, name: str) -> tuple[str, Taken]:
        """Pool id, and what was taken of it. Raises NoAddress."""
        record = view.pool(slot.tenant, case.place.site_id, name)
        if record is None or ATTRIBUTE.get(record.kind) != attribute:
            raise NoAddress("no-address", f"pool {name!r} is not there")
        may_go_without = record.when_empty == "without"
        mac = case.request.mac
        if not mac:
            raise NoAddress("no-address", "the NAS told no MAC address", may_go_without=may_go_without)
        pool = self._open(record)
        if pool is None:
            why = f"pool {name!r} is not ready in this cell"
            raise NoAddress("no-address", why, may_go_without=may_go_without)
        if pool.stocked_at != record.stocked_at:
            pool.restock(record.stocked_at, view.pool_stock(slot.tenant, record.pool_id))
        lease = view.pool_lease(slot.tenant, record.pool_id, mac)
        taken = pool.take(mac, lease, now=case.at // 1_000_000)
        if taken is None:
            why = f"pool {name!r} has no address left here"
            raise NoAddress("pool-exhausted", why, may_go_without=may_go_without)
        return record.pool_id, taken

    def _open(self, record: PoolRecord) -> "OpenPool | None":
        pool = self._pools.get(record.claims)
        if pool is not None:
            return pool
        if not record.claims or self._directory is None or not self._owns():
            return None
        claims = Claims.open(self._directory / record.claims)
        if claims is None:
            return None
        while len(self._pools) >= MAX_OPEN_POOLS:
            self._pools.pop(next(iter(self._pools))).claims.close()
        pool = self._pools[record.claims] = OpenPool(self._directory / record.claims, claims)
        return pool

    def _owns(self) -> bool:
        """Whether this process writes the claims: not while a radiusd before it, or another beside it, does."""
        if self._owner is None:
            assert self._directory is not None
            try:
                owner = open(self._directory / "owner.lock", "w")  # noqa: SIM115  # held for life
            except OSError:
                return False
            try:
                fcntl.flock(owner, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                owner.close()
                return False
            self._owner = owner
        return True


class OpenPool:
    """One pool: what is ready by the replica, and what was taken since by the claims."""

    def __init__(self, path: Path, claims: Claims) -> None:
        self.claims = claims
        self.stocked_at = 0
        self._made_at = made_at(path.name)
        self._path = path
        # By number: what may be taken, under which grant.
        self._offered: dict[int, Taken] = {}
        self._ready: deque[int] = deque()
        # Of each device the number that it took last.
        self._numbers = {claim.mac: number for number, claim in sorted(claims.items(), key=lambda each: each[1].at)}

    def restock(self, stocked_at: int, stock: PoolStockRecord | None) -> None:
        self.stocked_at = stocked_at
        offered = (Taken(*entry) for entry in stock.ready) if stock else ()
        # Who has taken what was made ready before, this file does not tell.
        self._offered = {each.number: each for each in offered if each.grant > self._made_at}
        self._ready = deque(self._offered)

    def take(self, mac: str, lease: PoolLeaseRecord | None, *, now: int) -> Taken | None:
        """The address that the device has already or had last, where nobody else has it; else one that is ready."""
        taken = self._again(mac) or (lease and self._leased(mac, lease, now)) or self._next(mac, now)
        if taken is not None:
            before = self.claims[taken.number].mac
            if self._numbers.get(before) == taken.number:
                del self._numbers[before]
            self.claims.put(taken.number, Claim(taken.grant, mac, now))
            self._numbers[mac] = taken.number
        return taken

    def _again(self, mac: str) -> Taken | None:
        """What it has taken, and the replica does not know of yet."""
        number = self._numbers.get(mac)
        offered = None if number is None else self._offered.get(number)
        if offered is None or not self._has_entry(offered.number):
            return None
        claim = self.claims[offered.number]
        return offered if claim.mac == mac and claim.grant == offered.grant else None

    def _leased(self, mac: str, lease: PoolLeaseRecord, now: int) -> Taken | None:
        """What it has or had by the replica, unless somebody has taken that meanwhile."""
        if not self._has_entry(lease.number) or (lease.ready and lease.grant <= self._made_at):
            return None
        claim = self.claims[lease.number]
        if claim.mac != mac and (claim.grant == lease.grant or _is_recent(claim, now)):
            return None
        return Taken(lease.number, lease.grant, lease.address)

    def _next(self, mac: str, now: int) -> Taken | None:
        while self._ready:
            offered = self._offered[self._ready.popleft()]
            if not self._has_entry(offered.number):
                continue
            claim = self.claims[offered.number]
            # Under an earlier grant a device that the replica knew of may have come back a moment ago.
            if claim.grant != offered.grant and (claim.mac == mac or not _is_recent(claim, now)):
                return offered
        return None

    def _has_entry(self, number: int) -> bool:
        if number < len(self.claims):
            return True
        # The pool has grown, and its file with it.
        larger = Claims.open(self._path)
        if larger is None:
            return False
        self.claims.close()
        self.claims = larger
        return number < len(larger)


def _is_recent(claim: Claim, now: int) -> bool:
    # A clock that was set back makes nothing recent for longer.
    return claim.grant > 0 and abs(now - claim.at) < RECENT_SECONDS


def _of_endpoint(case: Case, attribute: str) -> str:
    """The address that is stored with the device itself, "" for none. Raises NoAddress where it is none."""
    endpoint = case.endpoint
    if endpoint is None or endpoint.status != "active":
        return ""
    text = endpoint.attributes.get(attribute, "")
    if not text:
        return ""
    try:
        if attribute == "Framed-IP-Address":
            return str(ipaddress.IPv4Address(text))
        return str(ipaddress.IPv6Network(text))
    except ValueError as exc:
        raise NoAddress("no-address", f"attribute {attribute} of the endpoint: {exc}") from exc
