"""Reservations of addresses for single devices."""

from collections.abc import Mapping

from sqlalchemy.orm import Session

from nac.kit.advice import Advice, NextStep
from nac.kit.errors import InvalidInput, MistakeCollector
from nac.kit.validation import require_mac
from nac.models import Pool, PoolAddress
from nac.pools import repository
from nac.pools.extent import parse_address


def parse_reservations(written: Mapping[str, str]) -> dict[str, str]:
    """Parse a mapping from MAC address to address; "" cancels a reservation. Raises InvalidInput or SeveralMistakes."""
    mistakes = MistakeCollector()
    read: dict[str, str] = {}
    for device, text in written.items():
        with mistakes.noted():
            mac = require_mac(device, place="reserved")
            address = text and parse_address(text, place="reserved")
            if mac in read:
                raise InvalidInput(
                    f"Device {mac} occurs twice.", place="reserved", remedy="Reserve one address for each device."
                )
            if address and address in read.values():
                raise InvalidInput(
                    f"{address} is reserved for two devices.",
                    place="reserved",
                    remedy="Reserve each address for only one device.",
                )
            read[mac] = address
    mistakes.refuse()
    return read


def apply_reservations(session: Session, pool: Pool, read: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Reserve the addresses that `parse_reservations` returned. Raises InvalidInput or SeveralMistakes.

    Returns two mappings from the MAC address of each changed device to its reserved address: before and after the
    change. "" means no reservation.
    """
    if not read:
        return {}, {}
    mistakes = MistakeCollector()
    found = repository.lock_addresses(session, pool, [address for address in read.values() if address], list(read))
    rows = {each.address: each for each in found if not each.leaving}
    chosen: dict[str, PoolAddress | None] = {}
    for mac, address in read.items():
        with mistakes.noted():
            chosen[mac] = _require_reservable(session, pool, rows, mac, address, freed=read) if address else None
    mistakes.refuse()
    had = {row.reserved_for: row.address for row in found if row.reserved_for is not None}
    has = {mac: row.address if row else "" for mac, row in chosen.items()}
    for row in found:
        if row.reserved_for in chosen and chosen[row.reserved_for] is not row:
            _set_reservation(row, None)
    for mac, chosen_row in chosen.items():
        if chosen_row is not None and chosen_row.reserved_for != mac:
            _set_reservation(chosen_row, mac)
    session.flush()
    changed = [mac for mac, address in has.items() if address != had.get(mac, "")]
    return {mac: had.get(mac, "") for mac in changed}, {mac: has[mac] for mac in changed}


def _require_reservable(
    session: Session, pool: Pool, rows: Mapping[str, PoolAddress], mac: str, address: str, *, freed: Mapping[str, str]
) -> PoolAddress:
    """Return the row of `address` if the address can be reserved for the device `mac`.

    The keys of `freed` are the devices whose reservations the request replaces.
    """
    row = rows.get(address)
    if row is None:
        raise InvalidInput(
            f"{address} is not in pool {pool.name!r}.",
            place="reserved",
            remedy="Use an address in the ranges of the pool.",
        )
    if row.reserved_for not in (None, mac, *freed):
        raise InvalidInput(f"{address} is already reserved for {row.reserved_for}.", place="reserved")
    if row.mac != mac and (row.state == "leased" or repository.is_held(session, row, pool.kind)):
        raise InvalidInput(
            f"{'Device ' + row.mac if row.mac else 'A device'} already has {address}.",
            place="reserved",
            remedy=Advice(
                "Wait until the device releases the address. Or end the session of the device, then release the"
                " address",
                NextStep("releasePoolAddress", {"address": address}),
            ),
        )
    return row


def _set_reservation(row: PoolAddress, mac: str | None) -> None:
    row.reserved_for = mac
    if row.state in ("free", "stock"):
        # The new grant makes claims with an older grant invalid, and the cell removes the address from its stock.
        row.grant_number += 1
