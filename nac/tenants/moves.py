"""A tenant goes to another cell: prepared, switched, then finished or cancelled. In PlatformScope.

Never do two cells decide for one tenant: the slot that it is to have is configured ahead with the tenant's own secret,
and one transaction takes the tenant from the one slot to the other. The cell before answers it no more, so that NASes
that know both addresses go over by themselves; its slot is kept until the move is finished, so that the way back is as
short. What it had heard and not yet told is shipped by the new cell (migration 0037, `hand_over_record`).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from nac.audit.service import tenant_recorder
from nac.cells import service as cells
from nac.clock import utc_now
from nac.db import enter_tenant
from nac.errors import Conflict, NotFound
from nac.ids import TenantId
from nac.models import Cell, Slot, Tenant, TenantMove
from nac.secrets import Sealer
from nac.tenants import service as tenants

MoveState = Literal["prepared", "switched", "finished", "cancelled"]

_audit = tenant_recorder("tenant")
_INSTRUCTIONS: Mapping[str, str] = {
    "prepared": "Add the new address and ports as the second RADIUS server, with the same secret, and permit the new "
    "address to send Disconnect- and CoA-Requests. It does not answer yet.",
    "switched": "The new address answers, the one of before does not. Make the new one the first RADIUS server.",
    "finished": "Remove the address of before.",
    "cancelled": "Remove the new address: the tenant stays where it was.",
}


class MoveNotFound(NotFound):
    """The tenant is not moving."""


class NotReadyYet(Conflict):
    """The new cell does not answer with the tenant's secret yet."""

    retry_after_seconds = 10


class CellSilent(Conflict):
    """The cell does not report, so it does not hear that it is to answer the tenant no more."""


@dataclass(frozen=True, slots=True)
class CellAddress:
    """Where NASes send to. `address` is "" for where the cell listens."""

    cell: str
    address: str
    auth_port: int
    acct_port: int


@dataclass(frozen=True, slots=True)
class MoveStatus:
    move: TenantMove
    before: CellAddress
    after: CellAddress
    # Whether the next step can be taken.
    is_ready: bool

    @property
    def told(self) -> str:
        """What is to be done at NASes now."""
        return _INSTRUCTIONS[self.move.state]


def prepare_move(session: Session, *, actor: str, tenant_id: TenantId, cell: str, sealer: Sealer) -> MoveStatus:
    """Take a free slot of the cell, which is then configured with the tenant's secret; its NASes notice nothing."""
    tenant = _enter_tenant(session, tenant_id)
    if tenant.status == "deleting":
        raise Conflict(f"Tenant {tenant.slug!r} is being deleted.", place="status", remedy="Restore it first.")
    if (open_move := _find_open_move(session, tenant_id)) is not None:
        raise Conflict(
            f"The tenant is moving already: {open_move.state}.", place="move", remedy="Finish it, or cancel."
        )
    target = session.scalar(select(Cell).where(Cell.name == cell))
    if target is None:
        raise NotFound(f"There is no cell {cell!r}.", place="cell", remedy="They are listed by: ./admit cell list")
    old = cells.require_slot(session, tenant_id=tenant_id)
    if old.cell_id == target.id:
        raise Conflict("The tenant is in this cell already.", place="cell", remedy="Choose another.")
    new = cells.take_free_slot(session, cell_id=target.id)
    secret = sealer.open(old.secret_sealed, cells.secret_context(old))
    new.secret_sealed = sealer.seal(secret, cells.secret_context(new))
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
    """From now on the new cell decides, and the one before answers no more. Raises NotReadyYet, and CellSilent where
    the agent of the one before is not heard, unless `although_silent`."""
    tenant = _enter_tenant(session, tenant_id)
    move = _require_open_move(session, tenant_id, "prepared")
    old, new = _lock_slots(session, move)
    if new.status != "ready":
        raise NotReadyYet(
            "radiusd of the new cell does not answer with the tenant's secret yet.",
            place="move",
            remedy="Try again in half a minute; if it stays so, see the alarms of that cell.",
        )
    _require_reporting(session, old, new, although_silent=although_silent)
    if _open_secret(sealer, old) != _open_secret(sealer, new):
        raise Conflict(
            "The tenant's secret was changed since.", place="move", remedy="Cancel this move and prepare it again."
        )
    _hand_over(session, tenant_id, old, new)
    move.state, move.switched_at = "switched", utc_now()
    session.flush()
    status = _describe(session, move)
    _audit(session, actor, tenant, "switch-move", after={"from": status.before.cell, "to": status.after.cell})
    return status


def finish_move(session: Session, *, actor: str, tenant_id: TenantId) -> MoveStatus:
    """The slot of before goes back to its cell; there is no way back from here but another move."""
    tenant = _enter_tenant(session, tenant_id)
    move = _require_open_move(session, tenant_id, "switched")
    _retire_slot(session, _lock_slots(session, move)[0])
    return _end_move(session, actor, tenant, move, "finished")


def cancel_move(session: Session, *, actor: str, tenant_id: TenantId) -> MoveStatus:
    """As it was before: a tenant that was switched goes back at once."""
    tenant = _enter_tenant(session, tenant_id)
    move = _require_open_move(session, tenant_id, "prepared", "switched")
    old, new = _lock_slots(session, move)
    if move.state == "switched":
        _hand_over(session, tenant_id, new, old)
    _retire_slot(session, new)
    return _end_move(session, actor, tenant, move, "cancelled")


def require_move(session: Session, *, tenant_id: TenantId) -> MoveStatus:
    """The last one of the tenant. In any scope that sees it; cells are named as far as they are seen."""
    move = _find_last_move(session, tenant_id)
    if move is None:
        raise MoveNotFound(place="move")
    return move


def lock_last_move(session: Session, *, tenant_id: TenantId) -> MoveStatus | None:
    """The same, None where there was none; it stays the last, and as it is, until the transaction ends."""
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
        raise Conflict(f"The move is {move.state}.", place="move")
    return move


def _lock_slots(session: Session, move: TenantMove) -> tuple[Slot, Slot]:
    """Of before and of after, locked in one order."""
    query = select(Slot).where(Slot.id.in_((move.from_slot_id, move.to_slot_id))).order_by(Slot.id)
    found = {
        slot.id: slot for slot in session.scalars(query.with_for_update().execution_options(populate_existing=True))
    }
    return found[move.from_slot_id], found[move.to_slot_id]


def _require_reporting(session: Session, old: Slot, new: Slot, *, although_silent: bool) -> None:
    found = session.scalars(select(Cell).where(Cell.id.in_((old.cell_id, new.cell_id)))).all()
    silent = {cell.id: cell.name for cell in found if not cells.is_heard(cell)}
    if new.cell_id in silent:
        raise NotReadyYet(
            f"Cell {silent[new.cell_id]!r} does not report: nobody would answer the tenant.",
            place="move",
            remedy="Start its agent, or cancel this move.",
        )
    if old.cell_id in silent and not although_silent:
        raise CellSilent(
            f"Cell {silent[old.cell_id]!r} does not report: as long as its radiusd lives it would go on answering, "
            "beside the new one.",
            place="although_silent",
            remedy="Start its agent. If it is gone for good, stop its radiusd and switch although it is silent "
            "(--although-silent).",
        )


def _open_secret(sealer: Sealer, slot: Slot) -> bytes:
    return sealer.open(slot.secret_sealed, cells.secret_context(slot))


def _hand_over(session: Session, tenant_id: TenantId, giver: Slot, taker: Slot) -> None:
    """What both cells are writing of the tenant is waited for: sessions have one writer at a time, and what is set
    aside of it goes along (migration 0048, `take_records_along`)."""
    for cell_id in sorted((giver.cell_id, taker.cell_id)):
        session.execute(select(func.pg_advisory_xact_lock(cells.SHIPPING_LOCK, cell_id)))
    giver.tenant_id, giver.status = None, "retired"
    session.flush()
    taker.tenant_id, taker.reserved_for, taker.status = tenant_id, None, "assigned"
    session.flush()
    # It still answers with the tenant's secret: ready for the way back.
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
