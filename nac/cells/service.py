"""Cells, their slots, and whether a change has arrived in them."""

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

from nac.cells import repository
from nac.clock import utc_now
from nac.db import Scope, session_scope
from nac.errors import CellTaken, Conflict, NoFreeSlot, NotFound, NotLiveYet, TenantHasNoCell
from nac.ids import CellId, SlotNumber, TenantId
from nac.models import Cell, Dictionary, SecretRotation, Slot
from nac.sealing import Seal

# Scope of an agent that has not registered: sees nothing (ids start at 1).
NO_CELL = CellId(0)

# 190 bits. Letters and digits alone: people paste it into switches, and radiusd's configuration quotes nothing of it.
_SECRET_ALPHABET = string.ascii_letters + string.digits
_SECRET_LENGTH = 32
_POLL_SECONDS = 0.05
# A change that reaches the cell is live by then.
_NUDGED_AFTER_SECONDS = 0.3
# Once it takes longer than it should: very many may wait for a cell that is away.
_LATE_SECONDS, _LATE_POLL_SECONDS = 1.0, 0.25
# What migration 0001 gives in register_cell. An agent reports every 5 s.
SILENT_SECONDS = 60
# Of advisory locks, with a cell's id: its shippers hold it shared while they write, and read behind it whose.
SHIPPING_LOCK = 0x41444D


def register_cell(session: Session, *, name: str, host: str) -> CellId:
    """Id of the cell of this name, made where it is new. As admit_cell, in CellScope(NO_CELL).

    Raises CellTaken where an agent of another host served it within SILENT_SECONDS and has not left it.
    """
    registered = select(func.register_cell(name, host).table_valued(column("cell_id"), column("held_by")))
    cell_id, held_by = session.execute(registered).one()
    if cell_id is None:
        raise _taken(name, held_by)
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
    """The agent on `host` serves the cell; what was journalled before `shipped_until` is in the database; None
    does not know.

    As admit_cell; raises CellTaken where another has taken it over.
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
        raise _taken(cell.name, cell.host)


def leave_cell(session: Session, *, cell_id: CellId, host: str) -> None:
    """The agent on `host` ends: another host may take the cell over at once. As admit_cell."""
    session.execute(update(Cell).where(Cell.id == cell_id, Cell.host == host).values(host=""))


def _taken(name: str, host: str) -> CellTaken:
    return CellTaken(
        f"Host {host} serves the cell {name!r}.",
        remedy=f"Give the cell here another name (ADMIT_CELL_NAME), or end the agent there: one that was killed counts "
        f"as gone after {SILENT_SECONDS} s.",
    )


def upload_dictionary(session: Session, *, cell_id: CellId, content: bytes, server_version: str) -> bytes:
    """Store the JSON of the dictionaries that the cell's radiusd loads; returns the SHA-256 of what is stored."""
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
    """JSON of the dictionaries that decide for this tenant; None while its cell has uploaded none."""
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
    """Make slots 0 to `count` - 1 exist, on two ports each from `first_port`; ones beyond are retired. As admit_cell.

    Raises Conflict where a slot beyond `count` still holds a tenant.
    """
    slots = {slot.number: slot for slot in repository.slots_of_cell(session, cell_id)}
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
                f"Slot {number} of this cell holds a tenant.",
                place="slots",
                remedy=f"Start with {number + 1} slots or more.",
            )
        slot.status = "retired"
    session.flush()


def renew_retired_slots(session: Session, *, cell_id: CellId, count: int, seal: Seal) -> list[SlotNumber]:
    """Give the retired slots below `count` a new secret. As admit_cell, before radiusd is started with it.

    They stay retired until `free_slots`: a tenant that took one earlier would be given a secret that nobody answers to.
    """
    retired = [
        slot for slot in repository.slots_of_cell(session, cell_id) if slot.status == "retired" and slot.number < count
    ]
    for slot in retired:
        _renew_secret(slot, seal)
    session.flush()
    return [slot.number for slot in retired]


def free_slots(session: Session, *, cell_id: CellId, numbers: Collection[SlotNumber]) -> None:
    """radiusd answers with the new secrets of these retired slots. As admit_cell."""
    for slot in repository.slots_of_cell(session, cell_id):
        if slot.number in numbers and slot.status == "retired":
            slot.status = "free"
    session.flush()


def make_ready(session: Session, *, cell_id: CellId, sealed: Collection[bytes]) -> None:
    """radiusd answers with the secrets of these reserved slots, which are named by them as they are stored. As
    admit_cell."""
    session.execute(
        update(Slot)
        .where(Slot.cell_id == cell_id, Slot.status == "reserved", Slot.secret_sealed.in_(sealed))
        .values(status="ready")
    )


def unready(session: Session, *, tenant_id: TenantId) -> None:
    """radiusd is to be configured otherwise before the tenant may come to a slot that is reserved for it."""
    session.execute(
        update(Slot).where(Slot.reserved_for == tenant_id, Slot.status == "ready").values(status="reserved")
    )


def note_open(session: Session, *, tenant_ids: Collection[TenantId | None]) -> None:
    """radiusd answers with both secrets of what changes over of these tenants. As admit_cell."""
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
    slot.secret_sealed = seal(generate_secret().encode(), secret_context(slot))


def secret_context(slot: Slot) -> str:
    """What the slot's secret is sealed for."""
    return f"slot:{slot.id}"


def is_heard(cell: Cell) -> bool:
    """Whether its agent has reported within SILENT_SECONDS."""
    seen = cell.agent_seen_at
    return seen is not None and (utc_now() - seen).total_seconds() < SILENT_SECONDS


def assign_slot(session: Session, *, tenant_id: TenantId, label: str = "") -> Slot:
    """Take a free slot for a tenant, in a cell with this label where one is given. In PlatformScope."""
    slot = take_free_slot(session, label=label)
    slot.tenant_id = tenant_id
    slot.status = "assigned"
    session.flush()
    return slot


def take_free_slot(session: Session, *, label: str = "", cell_id: CellId | None = None) -> Slot:
    """Locked, and as it was. Raises NoFreeSlot."""
    seen_since = utc_now() - timedelta(seconds=SILENT_SECONDS)
    slot = repository.lock_free_slot(session, label=label, cell_id=cell_id, seen_since=seen_since)
    if slot is None:
        raise _no_free_slot(session, label, cell_id)
    return slot


def _no_free_slot(session: Session, label: str, cell_id: CellId | None) -> NoFreeSlot:
    more = "Start another cell, or one with more slots."
    if label or cell_id is not None:
        which = f"No active cell with the label {label!r}" if label else "The cell"
        return NoFreeSlot(f"{which} has a free slot.", place="cell", remedy=f"Choose another, or none. {more}")
    if count := repository.count_retired(session):
        return NoFreeSlot(
            f"No cell has a free slot; {count} of removed tenants wait until radiusd answers with a new secret.",
            remedy=f"Try again in half a minute. {more}",
        )
    return NoFreeSlot(remedy=f"The slot of a tenant that is purged comes back after half a minute. {more}")


def release_slot(session: Session, *, tenant_id: TenantId) -> None:
    """The tenant leaves its cell, and the one that it was moving to; the slots wait for a new secret, because the old
    one is known outside."""
    for slot in repository.slots_held_for(session, tenant_id):
        slot.tenant_id = slot.reserved_for = None
        slot.status = "retired"
    session.flush()


def require_slot(session: Session, *, tenant_id: TenantId) -> Slot:
    slot = repository.slot_of_tenant(session, tenant_id)
    if slot is None:
        raise TenantHasNoCell
    return slot


def told_address(session: Session, *, slot: Slot, usual: str) -> str:
    """What NASes of the slot's tenant send to: as the cell is set, or else `usual`."""
    return require_cell(session, cell_id=slot.cell_id).address or usual


def assigned_slots(session: Session) -> dict[TenantId, Slot]:
    """Slots by the tenant that holds them, as far as the scope sees them."""
    return {slot.tenant_id: slot for slot in repository.list_assigned(session) if slot.tenant_id is not None}


def require_cell(session: Session, *, cell_id: CellId) -> Cell:
    cell = session.get(Cell, cell_id)
    if cell is None:
        raise NotFound("There is no such cell.")
    return cell


def list_cells(session: Session) -> Sequence[Cell]:
    return repository.list_cells(session)


def current_xact(session: Session) -> str:
    """Id of this transaction, to be given to `is_live` after it has committed."""
    return repository.current_xact(session)


def is_live(session: Session, *, tenant_id: TenantId, xact: str) -> bool:
    """Whether the tenant's cell decides with what transaction `xact` wrote. Raises TenantHasNoCell."""
    visible = repository.is_visible_in_cell(session, tenant_id, xact)
    if visible is None:
        raise TenantHasNoCell
    return visible


def wait_until_live(
    scope: Scope, *, tenant_id: TenantId, xact: str, timeout_seconds: float, engine: Engine | None = None
) -> None:
    """Return once the tenant's cell decides with what `xact` wrote; raises NotLiveYet after the timeout.

    Call it after the commit: it opens short transactions of its own.
    """
    began = time.monotonic()
    nudged = False
    while True:
        waited = time.monotonic() - began
        with session_scope(scope, engine=engine) as session:
            if is_live(session, tenant_id=tenant_id, xact=xact):
                return
            if waited > _NUDGED_AFTER_SECONDS and not nudged:
                # Of what changes nothing that the cell has, nobody has told it: it would look in its own time.
                repository.nudge_cells(session)
                nudged = True
        if waited > timeout_seconds:
            raise NotLiveYet(remedy="Is the agent of the tenant's cell up?")
        time.sleep(_POLL_SECONDS if waited < _LATE_SECONDS else _LATE_POLL_SECONDS)
