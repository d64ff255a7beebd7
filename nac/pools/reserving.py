"""Addresses of a pool that belong to one device each."""

from collections.abc import Mapping

from sqlalchemy.orm import Session

from nac.errors import InvalidInput, Mistakes
from nac.models import Pool, PoolAddress
from nac.pools import repository
from nac.validation import require_mac


def reserve(session: Session, pool: Pool, wanted: Mapping[str, str]) -> dict[str, str]:
    """MAC address to the address that it alone gets of the pool, "" for none any more; returns what was written.

    Raises InvalidInput or SeveralMistakes.
    """
    if not wanted:
        return {}
    rows = {each.address: each for each in repository.locked_addresses(session, pool) if not each.leaving}
    held = {each.reserved_for: each for each in rows.values() if each.reserved_for}
    mistakes = Mistakes()
    chosen: dict[str, PoolAddress | None] = {}
    for written, address in wanted.items():
        with mistakes.noted():
            mac = require_mac(written, place="reserved")
            chosen[mac] = _row(pool, rows, mac, address) if address else None
    mistakes.refuse()
    for mac, row in chosen.items():
        before = held.get(mac)
        if before is not None and before is not row:
            _change(before, None)
        if row is not None and row.reserved_for != mac:
            _change(row, mac)
    session.flush()
    return {mac: row.address if row else "" for mac, row in chosen.items()}


def _row(pool: Pool, rows: Mapping[str, PoolAddress], mac: str, address: str) -> PoolAddress:
    row = rows.get(address)
    if row is None:
        raise InvalidInput(
            f"{address} is not in pool {pool.name!r}.", place="reserved", remedy="Give an address of its ranges."
        )
    if row.reserved_for not in (None, mac):
        raise InvalidInput(f"{address} is reserved for {row.reserved_for} already.", place="reserved")
    if row.state == "leased" and row.mac != mac:
        raise InvalidInput(
            f"Device {row.mac} has {address}.",
            place="reserved",
            remedy=f"Wait until it has given it up, or end its session; then ./admit pool release {address}",
        )
    return row


def _change(row: PoolAddress, mac: str | None) -> None:
    row.reserved_for = mac
    if row.state in ("free", "stock"):
        # Under another number, so that who has taken it by the old one is no obstacle. A cell withdraws it.
        row.grant_number += 1
