"""Move of a tenant to another cell. The states of a move are: prepared, switched, then finished or cancelled.

At any time, only one cell decides about a tenant's requests. The preparation reserves a slot (port pair) of the new
cell, and configures the slot with the tenant's secret. The switch moves the tenant to the new slot in one transaction.
The old cell then stops responding, so NASes that know the addresses of both cells use the new cell automatically. The
old slot stays reserved until the move is finished, so that the tenant can return quickly. After the switch, the journal
of the old cell may still contain records of the tenant. The agent of the old cell hands these records over, and the
agent of the new cell stores them in PostgreSQL (SQL function `hand_over_record`).

Functions need PlatformScope, unless their docstring names another scope.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from nac.core.audit.service import tenant_recorder
from nac.kit.advice import Advice, NextStep
from nac.kit.clock import utc_now
from nac.kit.db import enter_tenant
from nac.kit.errors import Conflict, NotFound
from nac.kit.ids import TenantId
from nac.kit.secrets import Sealer
from nac.models import Cell, Slot, Tenant, TenantMove
from nac.tenancy.cells import service as cells
from nac.tenancy.tenants import service as tenants

MoveState = Literal["prepared", "switched", "finished", "cancelled"]

_audit = tenant_recorder("tenant")
_INSTRUCTIONS: Mapping[str, str] = {
    "prepared": "Add the new address and ports as the second RADIUS server, with the same secret. Permit the new"
    " address to send Disconnect- and CoA-Requests. The new address does not respond yet.",
    "switched": "The new address answers, and the old address does not. Make the new address the first RADIUS server.",
    "finished": "Remove the old address.",
    "cancelled": "Remove the new address. The tenant stays in its cell.",
}


class MoveNotFound(NotFound):
    """The tenant is not moving."""


class NotReadyYet(Conflict):
    """The new cell does not respond with the tenant's secret yet."""

    retry_after_seconds = 10


class CellSilent(Conflict):
    """The cell's agent does not report, so the cell would continue to respond to the tenant's NASes."""


@dataclass(frozen=True, slots=True)
class CellAddress:
    """Address and ports of a cell for NASes. `address` "" means the cell's listening address."""

    cell: str
    address: str
    auth_port: int
    acct_port: int


@dataclass(frozen=True, slots=True)
class MoveStatus:
    move: TenantMove
    before: CellAddress
    after: CellAddress
    # Whether the next step of the move is possible.
    is_ready: bool

    @property
    def next_step(self) -> str:
        """Text for the user: the next change of the configuration of the NASes."""
        return _INSTRUCTIONS[self.move.state]


def prepare_move(session: Session, *, actor: str, tenant_id: TenantId, cell: str, sealer: Sealer) -> MoveStatus:
    """Reserve a free slot (port pair) in the cell for the tenant, and copy the tenant's secret to the slot.

    The preparation does not affect NASes.
    """
    tenant = _enter_tenant(session, tenant_id)
    if tenant.status == "deleting":
        raise Conflict(f"Tenant {tenant.slug!r} is being deleted.", place="status", remedy="Restore the tenant first.")
    if (open_move := _find_open_move(session, tenant_id)) is not None:
        raise Conflict(
            f"The tenant already has a move in state {open_move.state}.",
            place="move",
            remedy="Finish or cancel the move.",
        )
    target = session.scalar(select(Cell).where(Cell.name == cell))
    if target is None:
        raise NotFound(f"Cell {cell!r} does not exist.", place="cell", remedy=Advice("List cells", "listCells"))
    old = cells.require_slot(session, tenant_id=tenant_id)
    if old.cell_id == target.id:
        raise Conflict("The tenant is already in this cell.", place="cell", remedy="Choose another cell.")
    new = cells.require_free_slot(session, cell_id=target.id)
    secret = sealer.open(old.secret_sealed, cells.slot_secret_context(old))
    new.secret_sealed = sealer.seal(secret, cells.slot_secret_context(new))
    new.status, new.reserved_for = "reserved", tenant_id
    move = TenantMove(
        tenant_id=tenant_id,
        state="prepared",
        from_cell_id=old.cell_id,
        from_slot_id=old.id,
        to_cell_id=new.cell_id,
        to_slot_id=new.id,
        created_by=actor,
    )
    session.add(move)
    session.flush()
    status = _describe(session, move)
    _audit(session, actor, tenant, "prepare-move", after={"from": status.before.cell, "to": status.after.cell})
    return status


def switch_move(
    session: Session, *, actor: str, tenant_id: TenantId, sealer: Sealer, although_silent: bool = False
) -> MoveStatus:
    """Switch the tenant to the new cell.

    After the switch, the new cell decides about requests, and the old cell stops responding. Raises NotReadyYet. Raises
    CellSilent if the agent of the old cell does not report, unless `although_silent` is true.
    """
    tenant = _enter_tenant(session, tenant_id)
    move = _require_open_move(session, tenant_id, "prepared")
    old, new = _lock_slots(session, move)
    if new.status != "ready":
        raise NotReadyYet(
            "radiusd of the new cell does not respond with the tenant's secret yet.",
            place="move",
            remedy="Try again in 30 seconds. If the error persists, check the alarms of the new cell.",
        )
    _require_reporting(session, old, new, although_silent=although_silent)
    if _open_secret(sealer, old) != _open_secret(sealer, new):
        raise Conflict(
            "The tenant's secret changed after the move was prepared.",
            place="move",
            remedy="Cancel this move and prepare a new move.",
        )
    _hand_over(session, tenant_id, old, new)
    move.state, move.switched_at = "switched", utc_now()
    session.flush()
    status = _describe(session, move)
    _audit(session, actor, tenant, "switch-move", after={"from": status.before.cell, "to": status.after.cell})
    return status


def finish_move(session: Session, *, actor: str, tenant_id: TenantId) -> MoveStatus:
    """Finish the move, and release the old slot (port pair) for other tenants.

    After this call, only a new move can return the tenant to the old cell.
    """
    tenant = _enter_tenant(session, tenant_id)
    move = _require_open_move(session, tenant_id, "switched")
    _retire_slot(session, _lock_slots(session, move)[0])
    return _end_move(session, actor, tenant, move, "finished")


def cancel_move(session: Session, *, actor: str, tenant_id: TenantId) -> MoveStatus:
    """Cancel a move. If the tenant was already switched, the tenant returns to its old cell immediately."""
    tenant = _enter_tenant(session, tenant_id)
    move = _require_open_move(session, tenant_id, "prepared", "switched")
    old, new = _lock_slots(session, move)
    if move.state == "switched":
        _hand_over(session, tenant_id, new, old)
    _retire_slot(session, new)
    return _end_move(session, actor, tenant, move, "cancelled")


def require_move(session: Session, *, tenant_id: TenantId) -> MoveStatus:
    """Return the last move of the tenant. Call this function in any scope that can read the tenant.

    The result does not name cells that the scope cannot read.
    """
    move = _find_last_move(session, tenant_id)
    if move is None:
        raise MoveNotFound(place="move")
    return move


def lock_last_move(session: Session, *, tenant_id: TenantId) -> MoveStatus | None:
    """Return the last move of the tenant, or None. Locks the move until the transaction ends."""
    _enter_tenant(session, tenant_id)
    return _find_last_move(session, tenant_id)


def _find_last_move(session: Session, tenant_id: TenantId) -> MoveStatus | None:
    query = select(TenantMove).where(TenantMove.tenant_id == tenant_id)
    query = query.order_by(TenantMove.created_at.desc(), TenantMove.id).limit(1)
    move = session.scalar(query.execution_options(populate_existing=True))
    return None if move is None else _describe(session, move)


def _enter_tenant(session: Session, tenant_id: TenantId) -> Tenant:
    enter_tenant(session, tenant_id)
    tenant = session.scalar(select(Tenant).where(Tenant.id == tenant_id).with_for_update())
    if tenant is None:
        raise tenants.TenantNotFound
    return tenant


def _find_open_move(session: Session, tenant_id: TenantId) -> TenantMove | None:
    return session.scalar(
        select(TenantMove).where(TenantMove.tenant_id == tenant_id, TenantMove.state.in_(("prepared", "switched")))
    )


def _require_open_move(session: Session, tenant_id: TenantId, *states: MoveState) -> TenantMove:
    move = _find_open_move(session, tenant_id)
    if move is None:
        raise MoveNotFound(place="move", remedy="Prepare a move first.")
    if move.state not in states:
        raise Conflict(f"The state of the move is {move.state}.", place="move")
    return move


def _lock_slots(session: Session, move: TenantMove) -> tuple[Slot, Slot]:
    """Return the old and the new slot (port pair) of the move. Locks the slots in the order of their ids."""
    query = select(Slot).where(Slot.id.in_((move.from_slot_id, move.to_slot_id))).order_by(Slot.id)
    found = {
        slot.id: slot for slot in session.scalars(query.with_for_update().execution_options(populate_existing=True))
    }
    return found[move.from_slot_id], found[move.to_slot_id]


def _require_reporting(session: Session, old: Slot, new: Slot, *, although_silent: bool) -> None:
    found = session.scalars(select(Cell).where(Cell.id.in_((old.cell_id, new.cell_id)))).all()
    silent = {cell.id: cell.name for cell in found if not cells.is_reporting(cell)}
    if new.cell_id in silent:
        raise NotReadyYet(
            f"New cell {silent[new.cell_id]!r} does not report, so after the switch no cell would respond to the"
            " tenant's NASes.",
            place="move",
            remedy="Start the agent of the new cell, or cancel the move.",
        )
    if old.cell_id in silent and not although_silent:
        raise CellSilent(
            f"Old cell {silent[old.cell_id]!r} does not report, so after the switch both cells would respond to the"
            " tenant's NASes.",
            place="although_silent",
            remedy=Advice(
                "Start the agent of the old cell. If you cannot start the agent, stop radiusd of the old cell. Then"
                " switch with although_silent.",
                NextStep(parameters={"although_silent": "true"}),
            ),
        )


def _open_secret(sealer: Sealer, slot: Slot) -> bytes:
    return sealer.open(slot.secret_sealed, cells.slot_secret_context(slot))


def _hand_over(session: Session, tenant_id: TenantId, giver: Slot, taker: Slot) -> None:
    """Move the tenant from the slot (port pair) `giver` to the slot `taker`.

    Waits until both agents finish their current transactions that store journal records. So only one agent at a time
    stores records of a session. Quarantined records of the tenant then belong to the new cell (SQL function
    `take_records_along`).
    """
    for cell_id in sorted((giver.cell_id, taker.cell_id)):
        session.execute(select(func.pg_advisory_xact_lock(cells.SHIPPING_LOCK, cell_id)))
    giver.tenant_id, giver.status = None, "retired"
    session.flush()
    taker.tenant_id, taker.reserved_for, taker.status = tenant_id, None, "assigned"
    session.flush()
    # The slot `giver` keeps the tenant's secret, so that the tenant can return if the move is cancelled.
    giver.reserved_for, giver.status = tenant_id, "ready"
    session.flush()


def _retire_slot(session: Session, slot: Slot) -> None:
    slot.reserved_for, slot.status = None, "retired"
    session.flush()


def _end_move(session: Session, actor: str, tenant: Tenant, move: TenantMove, to: MoveState) -> MoveStatus:
    verb = {"finished": "finish-move", "cancelled": "cancel-move"}[to]
    _audit(session, actor, tenant, verb, before={"state": move.state}, after={"state": to})
    move.state, move.ended_at = to, utc_now()
    session.flush()
    return _describe(session, move)


def _describe(session: Session, move: TenantMove) -> MoveStatus:
    query = (
        select(Slot, Cell)
        .join(Cell, Cell.id == Slot.cell_id)
        .where(Slot.id.in_((move.from_slot_id, move.to_slot_id)))
        .execution_options(populate_existing=True)
    )
    places, statuses = {}, {}
    for slot, cell in session.execute(query):
        places[slot.id] = CellAddress(cell.name, cell.address, slot.auth_port, slot.acct_port)
        statuses[slot.id] = slot.status
    is_ready = move.state == "switched" or (move.state == "prepared" and statuses.get(move.to_slot_id) == "ready")
    nowhere = CellAddress("", "", 0, 0)
    return MoveStatus(move, places.get(move.from_slot_id, nowhere), places.get(move.to_slot_id, nowhere), is_ready)
