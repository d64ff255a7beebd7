"""Cells and their slots. A slot is a pair of UDP ports of a cell with a RADIUS secret, for one tenant.

This module has functions for the agent of a cell, functions that assign and release slots, and functions that wait
until a tenant's cell has applied a change.
"""

import hashlib
import secrets
import string
import time
import zlib
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from uuid import uuid4

from sqlalchemy import Engine, column, func, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from nac.kit.clock import utc_now
from nac.kit.db import Scope, session_scope
from nac.kit.errors import CellTaken, Conflict, NoFreeSlot, NotFound, NotLiveYet, TenantHasNoCell
from nac.kit.ids import CellId, SlotNumber, TenantId
from nac.kit.sealing import Seal
from nac.models import Cell, Dictionary, SecretRotation, Slot
from nac.tenancy.cells import repository

# Cell id with which an agent opens a scope before it has registered its cell. The scope has no rows, because ids start
# at 1.
UNREGISTERED_CELL = CellId(0)

# A secret has 190 random bits. It contains only letters and digits, so that users can paste it into switches, and
# radiusd needs no quotes.
_SECRET_ALPHABET = string.ascii_letters + string.digits
_SECRET_LENGTH = 32
_POLL_SECONDS = 0.05
# Time after which a waiting caller notifies the cells of a change. If the change itself notified the cell, the cell has
# usually applied the change within this time.
_NOTIFY_AFTER_SECONDS = 0.3
# Time in seconds after which a waiting caller polls less often, and the interval of these polls. Very many callers can
# wait for a cell that is down.
_LATE_SECONDS, _LATE_POLL_SECONDS = 1.0, 0.25
# A cell without a report for this time is silent. Must equal the time in SQL function register_cell. An agent reports
# every 5 s.
SILENT_SECONDS = 60
# First key of an advisory lock. The second key is the id of a cell. The agent of the cell holds a shared lock while the
# agent stores journal records in PostgreSQL.
SHIPPING_LOCK = 0x41444D


def register_cell(session: Session, *, name: str, host: str) -> CellId:
    """Return the id of the cell with this name. Creates the cell if no cell has this name.

    Raises CellTaken if an agent on another host reported within SILENT_SECONDS and has not left the cell. Needs role
    admit_cell and CellScope(UNREGISTERED_CELL).
    """
    registered = select(func.register_cell(name, host).table_valued(column("cell_id"), column("held_by")))
    cell_id, held_by = session.execute(registered).one()
    if cell_id is None:
        raise _cell_taken_error(name, held_by)
    return CellId(cell_id)


def report_cell(
    session: Session,
    *,
    cell_id: CellId,
    host: str,
    counters: Mapping[str, int],
    alarms: Sequence[Mapping[str, str]],
    shipped_until: datetime | None = None,
) -> None:
    """Store a report of the cell's agent on `host`. Needs database role admit_cell.

    `shipped_until`: the database contains all journal records of the cell from before this time; None if the agent does
    not know the time. Raises CellTaken if an agent on another host now serves the cell.
    """
    reported = session.execute(
        update(Cell)
        .where(Cell.id == cell_id, Cell.host == host)
        .values(
            agent_seen_at=utc_now(),
            counters=dict(counters),
            alarms=[dict(alarm) for alarm in alarms],
            shipped_until=func.coalesce(shipped_until, Cell.shipped_until),
        )
        .returning(Cell.id)
    )
    if reported.first() is None:
        cell = require_cell(session, cell_id=cell_id)
        raise _cell_taken_error(cell.name, cell.host)


def leave_cell(session: Session, *, cell_id: CellId, host: str) -> None:
    """Release the cell when its agent stops.

    Another host can then serve the cell immediately. Needs database role admit_cell.
    """
    session.execute(update(Cell).where(Cell.id == cell_id, Cell.host == host).values(host=""))


def _cell_taken_error(name: str, host: str) -> CellTaken:
    return CellTaken(
        f"Host {host} already serves cell {name!r}.",
        remedy="Set another name for this cell (ADMIT_CELL_NAME), or stop the agent on that host. A killed agent"
        f" counts as stopped after {SILENT_SECONDS} s.",
    )


def upload_dictionary(session: Session, *, cell_id: CellId, content: bytes, server_version: str) -> bytes:
    """Store the attribute dictionaries of the cell's radiusd (JSON).

    Returns the SHA-256 digest of the compressed content.
    """
    compressed = zlib.compress(content)
    digest = hashlib.sha256(compressed).digest()
    session.execute(
        insert(Dictionary)
        .values(sha256=digest, content=compressed, server_version=server_version)
        .on_conflict_do_nothing()
    )
    session.execute(update(Cell).where(Cell.id == cell_id).values(dictionary_sha256=digest))
    return digest


def load_dictionary(session: Session, *, tenant_id: TenantId) -> bytes | None:
    """Return the attribute dictionaries of the tenant's cell (JSON), or None if the cell has not uploaded any."""
    content = session.scalar(
        select(Dictionary.content)
        .join(Cell, Cell.dictionary_sha256 == Dictionary.sha256)
        .join(Slot, Slot.cell_id == Cell.id)
        .where(Slot.tenant_id == tenant_id)
    )
    return None if content is None else zlib.decompress(content)


def generate_secret() -> str:
    return "".join(secrets.choice(_SECRET_ALPHABET) for _ in range(_SECRET_LENGTH))


def ensure_slots(session: Session, *, cell_id: CellId, count: int, first_port: int, seal: Seal) -> None:
    """Create the missing slots (port pairs) of a cell, so that it has the slots 0 to `count` - 1, and set their ports.

    `first_port` is the first port of slot 0. Retires slots with number `count` or higher. Raises Conflict if a slot
    with such a number has a tenant. Needs database role admit_cell.
    """
    slots = {slot.number: slot for slot in repository.list_slots_of_cell(session, cell_id)}
    for number in range(count):
        auth_port, acct_port = first_port + 2 * number, first_port + 2 * number + 1
        slot = slots.pop(SlotNumber(number), None)
        if slot is None:
            slot = Slot(id=uuid4(), cell_id=cell_id, number=SlotNumber(number), status="free")
            _renew_secret(slot, seal)
            session.add(slot)
        slot.auth_port, slot.acct_port = auth_port, acct_port
    for number, slot in slots.items():
        if slot.status in ("assigned", "reserved", "ready"):
            raise Conflict(
                f"Slot {number} of this cell has a tenant.",
                place="slots",
                remedy=f"Start the cell with at least {number + 1} slots.",
            )
        slot.status = "retired"
    session.flush()


def renew_retired_slots(session: Session, *, cell_id: CellId, count: int, seal: Seal) -> list[SlotNumber]:
    """Generate new RADIUS secrets for retired slots (port pairs) with numbers below `count`.

    Call this function before radiusd starts with the new secrets, and call `mark_slots_free` after the start. Needs
    database role admit_cell.
    """
    retired = [
        slot
        for slot in repository.list_slots_of_cell(session, cell_id)
        if slot.status == "retired" and slot.number < count
    ]
    for slot in retired:
        _renew_secret(slot, seal)
    session.flush()
    return [slot.number for slot in retired]


def mark_slots_free(session: Session, *, cell_id: CellId, numbers: Collection[SlotNumber]) -> None:
    """Mark retired slots (port pairs) as free after radiusd started with their new secrets.

    Needs database role admit_cell.
    """
    for slot in repository.list_slots_of_cell(session, cell_id):
        if slot.number in numbers and slot.status == "retired":
            slot.status = "free"
    session.flush()


def mark_slots_ready(session: Session, *, cell_id: CellId, sealed: Collection[bytes]) -> None:
    """Mark reserved slots (port pairs) as ready after radiusd started with the secrets of these slots.

    `sealed` are the encrypted RADIUS secrets of the slots. Needs database role admit_cell.
    """
    session.execute(
        update(Slot)
        .where(Slot.cell_id == cell_id, Slot.status == "reserved", Slot.secret_sealed.in_(sealed))
        .values(status="ready")
    )


def mark_slot_not_ready(session: Session, *, tenant_id: TenantId) -> None:
    """Mark a slot (port pair) that is reserved for the tenant as not ready.

    A move of the tenant then waits until radiusd of the new cell has started with a new configuration.
    """
    session.execute(
        update(Slot).where(Slot.reserved_for == tenant_id, Slot.status == "ready").values(status="reserved")
    )


def mark_rotations_open(session: Session, *, tenant_ids: Collection[TenantId | None]) -> None:
    """Mark the secret rotations of these tenants as open, after radiusd started with the old and the new secrets.

    Needs database role admit_cell.
    """
    session.execute(
        update(SecretRotation)
        .where(
            SecretRotation.tenant_id.in_(tenant_ids),
            SecretRotation.state == "running",
            SecretRotation.opened_at.is_(None),
        )
        .values(opened_at=utc_now())
    )


def _renew_secret(slot: Slot, seal: Seal) -> None:
    slot.secret_sealed = seal(generate_secret().encode(), slot_secret_context(slot))


def slot_secret_context(slot: Slot) -> str:
    """Return the context for encrypting the RADIUS secret of the slot (port pair)."""
    return f"slot:{slot.id}"


def is_reporting(cell: Cell) -> bool:
    """Return whether the agent of the cell reported within SILENT_SECONDS."""
    seen = cell.agent_seen_at
    return seen is not None and (utc_now() - seen).total_seconds() < SILENT_SECONDS


def assign_slot(session: Session, *, tenant_id: TenantId, label: str = "") -> Slot:
    """Assign a free slot (port pair of a cell) to the tenant. `label` limits the choice to cells with this label.

    Needs PlatformScope.
    """
    slot = require_free_slot(session, label=label)
    slot.tenant_id = tenant_id
    slot.status = "assigned"
    session.flush()
    return slot


def require_free_slot(session: Session, *, label: str = "", cell_id: CellId | None = None) -> Slot:
    """Return a free slot (port pair of a cell), and lock its row. Raises NoFreeSlot."""
    seen_since = utc_now() - timedelta(seconds=SILENT_SECONDS)
    slot = repository.lock_free_slot(session, label=label, cell_id=cell_id, seen_since=seen_since)
    if slot is None:
        raise _no_free_slot_error(session, label, cell_id)
    return slot


def _no_free_slot_error(session: Session, label: str, cell_id: CellId | None) -> NoFreeSlot:
    more = "Add a cell, or slots to a cell."
    if label or cell_id is not None:
        missing = f"No active cell with the label {label!r} has a" if label else "The cell has no"
        return NoFreeSlot(
            f"{missing} free slot (port pair).", place="cell", remedy=f"Choose another cell or label. {more}"
        )
    if count := repository.count_retired(session):
        return NoFreeSlot(
            "No cell has a free slot (port pair). "
            f"Slots of deleted tenants that wait until radiusd has a new secret: {count}.",
            remedy=f"Try again in 30 seconds. {more}",
        )
    return NoFreeSlot(remedy=f"The slot of a purged tenant becomes free after 30 seconds. {more}")


def release_slot(session: Session, *, tenant_id: TenantId) -> None:
    """Release the slot (port pair) of the tenant, and the slot that is reserved for a move of the tenant.

    Each slot gets a new secret before its next use, because the tenant knows the current secret.
    """
    for slot in repository.list_slots_held_for(session, tenant_id):
        slot.tenant_id = slot.reserved_for = None
        slot.status = "retired"
    session.flush()


def require_slot(session: Session, *, tenant_id: TenantId) -> Slot:
    slot = repository.get_slot_of_tenant(session, tenant_id)
    if slot is None:
        raise TenantHasNoCell
    return slot


def advertised_address(session: Session, *, slot: Slot, usual: str) -> str:
    """Return the address at which NASes reach the slot's cell. If the cell has no such address, returns `usual`."""
    return require_cell(session, cell_id=slot.cell_id).address or usual


def require_cell(session: Session, *, cell_id: CellId) -> Cell:
    cell = session.get(Cell, cell_id)
    if cell is None:
        raise NotFound("The cell does not exist.")
    return cell


def list_cells(session: Session) -> Sequence[Cell]:
    return repository.list_cells(session)


def get_current_xact(session: Session) -> str:
    """Return the id of the current transaction. After the commit, pass the id to `is_live`."""
    return repository.get_current_xact(session)


def is_live(session: Session, *, tenant_id: TenantId, xact: str) -> bool:
    """Return whether the tenant's cell has applied transaction `xact`. Raises TenantHasNoCell."""
    visible = repository.is_visible_in_cell(session, tenant_id, xact)
    if visible is None:
        raise TenantHasNoCell
    return visible


def wait_until_live(
    scope: Scope, *, tenant_id: TenantId, xact: str, timeout_seconds: float, engine: Engine | None = None
) -> None:
    """Wait until the tenant's cell has applied transaction `xact`. Raises NotLiveYet after the timeout.

    Call this function after the commit. The function opens its own short transactions.
    """
    began = time.monotonic()
    nudged = False
    while True:
        waited = time.monotonic() - began
        with session_scope(scope, engine=engine) as session:
            if is_live(session, tenant_id=tenant_id, xact=xact):
                return
            if waited > _NOTIFY_AFTER_SECONDS and not nudged:
                # A change that does not affect the replica sends no notification to cells. Without a notification, the
                # cell would confirm the change late.
                repository.notify_cells(session)
                nudged = True
        if waited > timeout_seconds:
            raise NotLiveYet(remedy="Check that the agent of the tenant's cell is running.")
        time.sleep(_POLL_SECONDS if waited < _LATE_SECONDS else _LATE_POLL_SECONDS)
