"""Adds pool addresses from the replica to the reply. A claim file records each assignment (ADR 0011)."""

import fcntl
import ipaddress
import threading
from pathlib import Path
from typing import TextIO

from nac.cellformat.replica.records import PoolRecord, SlotRecord
from nac.cellformat.replica.store import ReplicaView
from nac.engine.vendors import ReplyPair
from nac.pools.claims import ClaimsFile
from nac.pools.extent import ATTRIBUTE_BY_KIND
from radius.module.cell import Cell
from radius.module.decision import AuthenticationCase
from radius.module.open_pool import GrantedAddress, OpenPool
from radius.module.policies import Outcome

# Limit of open pools. Each open pool uses an open file.
MAX_OPEN_POOLS = 500


class NoAddress(Exception):
    """No address is available. The arguments are a reason code (nac.engine.reasons) and details for the log."""

    def __init__(self, reason: str, detail: str, *, may_go_without: bool = False) -> None:
        super().__init__(reason, detail)
        self.reason = reason
        self.detail = detail
        self.may_go_without = may_go_without


class AddressAssigner:
    """Assigns addresses. Only `leave` and `resume` are thread-safe.

    From the first assignment on, this process owns the claim files, until the process ends or `leave` is called.
    """

    def __init__(self, cell: Cell) -> None:
        self._replica = cell.replica
        self._directory = Path(cell.settings.claims_directory) if cell.settings.claims_directory else None
        self._owner: TextIO | None = None
        # Open pools by name of the claim file.
        self._pools: dict[str, OpenPool] = {}
        self._turn = threading.Lock()
        self._left = False

    def leave(self) -> None:
        """Stop assigning addresses, because another radiusd takes over."""
        with self._turn:
            self._left = True
            while self._pools:
                self._pools.popitem()[1].close()
            if self._owner is not None:
                self._owner.close()
                self._owner = None

    def resume(self) -> None:
        with self._turn:
            self._left = False

    def complete(self, case: AuthenticationCase, slot: SlotRecord, outcome: Outcome) -> Outcome:
        """Add an address of each pool to the reply.

        Denies access if a pool whose address is required has no address left.
        """
        pairs: list[ReplyPair] = []
        addresses: list[tuple[str, int, int]] = []
        without: list[str] = []
        with self._replica.begin() as view:
            for attribute, name in outcome.pools:
                try:
                    fixed = _endpoint_address(case, attribute)
                    if fixed:
                        pairs.append((attribute, ":=", fixed))
                        continue
                    with self._turn:
                        pool_id, taken = self._take(case, slot, view, attribute, name)
                except NoAddress as none:
                    if not none.may_go_without:
                        return outcome.refused(none.reason, none.detail)
                    without.append(none.detail)
                else:
                    pairs.append((attribute, ":=", taken.address))
                    addresses.append((pool_id, taken.number, taken.grant))
        detail = "; ".join((*filter(None, (outcome.detail,)), *(f"no address: {why}" for why in without)))
        return outcome._replace(
            reply=(*outcome.reply, *pairs), sent=(*outcome.sent, *pairs), detail=detail, addresses=tuple(addresses)
        )

    def _take(
        self, case: AuthenticationCase, slot: SlotRecord, view: ReplicaView, attribute: str, name: str
    ) -> tuple[str, GrantedAddress]:
        """Assign an address. Returns the pool's id and the claimed address. Raises NoAddress."""
        record = view.pool(slot.tenant, case.place.site_id, name)
        if record is None or ATTRIBUTE_BY_KIND.get(record.kind) != attribute:
            raise NoAddress("no-address", f"pool {name!r} does not exist")
        may_go_without = record.when_empty == "without"
        mac = case.request.mac
        if not mac:
            raise NoAddress("no-address", "the NAS sent no MAC address", may_go_without=may_go_without)
        pool = self._open(record)
        if pool is None:
            why = f"pool {name!r} is not ready in this cell"
            raise NoAddress("no-address", why, may_go_without=may_go_without)
        if pool.stocked_at != record.stocked_at:
            pool.restock(record.stocked_at, view.pool_stock(slot.tenant, record.pool_id))
        lease = view.pool_lease(slot.tenant, record.pool_id, mac)
        taken = pool.take(mac, lease, now=case.at // 1_000_000)
        if taken is None:
            why = f"pool {name!r} has no address left in this cell"
            raise NoAddress("pool-exhausted", why, may_go_without=may_go_without)
        return record.pool_id, taken

    def _open(self, record: PoolRecord) -> OpenPool | None:
        pool = self._pools.get(record.claims)
        if pool is not None:
            return pool
        if not record.claims or self._directory is None or not self._owns_claims():
            return None
        claims = ClaimsFile.open(self._directory / record.claims)
        if claims is None:
            return None
        while len(self._pools) >= MAX_OPEN_POOLS:
            self._pools.pop(next(iter(self._pools))).close()
        pool = self._pools[record.claims] = OpenPool(self._directory / record.claims, claims)
        return pool

    def _owns_claims(self) -> bool:
        """Whether this process may write the claim files; False while another radiusd owns the files."""
        if self._left:
            return False
        if self._owner is None:
            assert self._directory is not None
            try:
                owner = open(self._directory / "owner.lock", "w")  # noqa: SIM115  # locked until the process ends
            except OSError:
                return False
            try:
                fcntl.flock(owner, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                owner.close()
                return False
            self._owner = owner
        return True


def _endpoint_address(case: AuthenticationCase, attribute: str) -> str:
    """Address stored with the endpoint; "" if the endpoint has no stored address. Raises NoAddress if the stored
    address is invalid."""
    endpoint = case.endpoint
    if endpoint is None or endpoint.status != "active":
        return ""
    text = endpoint.attributes.get(attribute.lower(), "")
    if not text:
        return ""
    try:
        if attribute == "Framed-IP-Address":
            return str(ipaddress.IPv4Address(text))
        return str(ipaddress.IPv6Network(text))
    except ValueError as exc:
        raise NoAddress("no-address", f"attribute {attribute.lower()} of the endpoint: {exc}") from exc
