"""Cells, their slots, and whether a change is live in them."""

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

# Scope of an unregistered agent, which sees nothing (ids start at 1).
UNREGISTERED_CELL = CellId(0)

# 190 bits. Only letters and digits: people paste it into switches, and radiusd's configuration needs no quoting.
_SECRET_ALPHABET = string.ascii_letters + string.digits
_SECRET_LENGTH = 32
_POLL_SECONDS = 0.05
# A change that the cell noticed is live by then.
_NOTIFY_AFTER_SECONDS = 0.3
# Longer interval after this time, because very many callers can wait for a cell that is down.
_LATE_SECONDS, _LATE_POLL_SECONDS = 1.0, 0.25
# Must match SQL function register_cell. An agent reports every 5 s.
SILENT_SECONDS = 60
# Advisory lock with a cell's id. Shippers hold it shared while they write and read tenants' assignments under it.
SHIPPING_LOCK = 0x41444D


def register_cell(session: Session, *, name: str, host: str) -> CellId:
    """Return the id of the cell with this name; create it if new. Needs role admit_cell and CellScope(NO_CELL).

    Raises CellTaken if an agent on another host reported within SILENT_SECONDS and has not left.
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
    """Record a report of the cell's agent on `host`. Journal records before `shipped_until` are in the database; None
    is unknown.

    Needs role admit_cell. Raises CellTaken if another host has taken over the cell.
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
    """Release the cell when its agent ends, so that another host can take it over at once. Needs role admit_cell."""
    session.execute(update(Cell).where(Cell.id == cell_id, Cell.host == host).values(host=""))


def _cell_taken_error(name: str, host: str) -> CellTaken:
    return CellTaken(
        f"Host {host} already serves cell {name!r}.",
        remedy="Set another name for this cell (ADMIT_CELL_NAME), or stop the agent on that host. A killed agent"
        f" counts as stopped after {SILENT_SECONDS} s.",
    )


def upload_dictionary(session: Session, *, cell_id: CellId, content: bytes, server_version: str) -> bytes:
    """Store the dictionaries of the cell's radiusd (JSON); return the SHA-256 of the stored content."""
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
    """Return the dictionaries of the tenant's cell (JSON); None if it has uploaded none."""
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
    """Create slots 0 to `count` - 1, with two ports each from `first_port`; retire others. Needs role admit_cell.

    Raises Conflict if a slot from `count` on has a tenant.
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
    """Generate new secrets for retired slots below `count`. Needs role admit_cell; call it before radiusd starts with
    them.

    The slots stay retired until `free_slots`, because radiusd does not answer with the new secrets yet.
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
    """Free retired slots once radiusd answers with their new secrets. Needs role admit_cell."""
    for slot in repository.list_slots_of_cell(session, cell_id):
        if slot.number in numbers and slot.status == "retired":
            slot.status = "free"
    session.flush()


def mark_slots_ready(session: Session, *, cell_id: CellId, sealed: Collection[bytes]) -> None:
    """Mark reserved slots, identified by their sealed secrets, as ready: radiusd answers with these. Needs role
    admit_cell.
    """
    session.execute(
        update(Slot)
        .where(Slot.cell_id == cell_id, Slot.status == "reserved", Slot.secret_sealed.in_(sealed))
        .values(status="ready")
    )


def mark_slot_not_ready(session: Session, *, tenant_id: TenantId) -> None:
    """Require a new configuration of radiusd before the tenant can move to a slot reserved for it."""
    session.execute(
        update(Slot).where(Slot.reserved_for == tenant_id, Slot.status == "ready").values(status="reserved")
    )


def mark_rotations_open(session: Session, *, tenant_ids: Collection[TenantId | None]) -> None:
    """Mark rotations of these tenants as open: radiusd answers with both secrets. Needs role admit_cell."""
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
    """Return the context in which the slot's secret is sealed."""
    return f"slot:{slot.id}"


def is_reporting(cell: Cell) -> bool:
    """Return whether its agent reported within SILENT_SECONDS."""
    seen = cell.agent_seen_at
    return seen is not None and (utc_now() - seen).total_seconds() < SILENT_SECONDS


def assign_slot(session: Session, *, tenant_id: TenantId, label: str = "") -> Slot:
    """Assign a free slot to a tenant, in a cell with this label if set. Needs PlatformScope."""
    slot = require_free_slot(session, label=label)
    slot.tenant_id = tenant_id
    slot.status = "assigned"
    session.flush()
    return slot


def require_free_slot(session: Session, *, label: str = "", cell_id: CellId | None = None) -> Slot:
    """Return a locked free slot. Raises NoFreeSlot."""
    seen_since = utc_now() - timedelta(seconds=SILENT_SECONDS)
    slot = repository.lock_free_slot(session, label=label, cell_id=cell_id, seen_since=seen_since)
    if slot is None:
        raise _no_free_slot_error(session, label, cell_id)
    return slot


def _no_free_slot_error(session: Session, label: str, cell_id: CellId | None) -> NoFreeSlot:
    more = "Add a cell, or slots to a cell."
    if label or cell_id is not None:
        which = f"No active cell with the label {label!r} has a free slot." if label else "The cell has no free slot."
        return NoFreeSlot(which, place="cell", remedy=f"Choose another cell or label. {more}")
    if count := repository.count_retired(session):
        return NoFreeSlot(
            f"No cell has a free slot. {count} slots of deleted tenants wait until radiusd has a new secret.",
            remedy=f"Try again in 30 seconds. {more}",
        )
    return NoFreeSlot(remedy=f"The slot of a purged tenant becomes free after 30 seconds. {more}")


def release_slot(session: Session, *, tenant_id: TenantId) -> None:
    """Release the slots of the tenant, also one reserved for a move. They wait for a new secret, because the old one is
    known outside.
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
    """Return the address for the tenant's NASes: that of the cell, or `usual`."""
    return require_cell(session, cell_id=slot.cell_id).address or usual


def require_cell(session: Session, *, cell_id: CellId) -> Cell:
    cell = session.get(Cell, cell_id)
    if cell is None:
        raise NotFound("The cell does not exist.")
    return cell


def list_cells(session: Session) -> Sequence[Cell]:
    return repository.list_cells(session)


def get_current_xact(session: Session) -> str:
    """Return the id of this transaction, for `is_live` after its commit."""
    return repository.get_current_xact(session)


def is_live(session: Session, *, tenant_id: TenantId, xact: str) -> bool:
    """Return whether transaction `xact` is live in the tenant's cell. Raises TenantHasNoCell."""
    visible = repository.is_visible_in_cell(session, tenant_id, xact)
    if visible is None:
        raise TenantHasNoCell
    return visible


def wait_until_live(
    scope: Scope, *, tenant_id: TenantId, xact: str, timeout_seconds: float, engine: Engine | None = None
) -> None:
    """Wait until transaction `xact` is live in the tenant's cell. Raises NotLiveYet after the timeout.

    Call it after the commit; it opens short transactions.
    """
    began = time.monotonic()
    nudged = False
    while True:
        waited = time.monotonic() - began
        with session_scope(scope, engine=engine) as session:
            if is_live(session, tenant_id=tenant_id, xact=xact):
                return
            if waited > _NOTIFY_AFTER_SECONDS and not nudged:
                # A change that does not affect the replica sends no notification.
                repository.notify_cells(session)
                nudged = True
        if waited > timeout_seconds:
            raise NotLiveYet(remedy="Check that the agent of the tenant's cell is running.")
        time.sleep(_POLL_SECONDS if waited < _LATE_SECONDS else _LATE_POLL_SECONDS)
