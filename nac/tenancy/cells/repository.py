from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import Text, cast, func, or_, select
from sqlalchemy.orm import Session, aliased

from nac.kit.db.base import PgSnapshot, Xid8
from nac.kit.ids import CellId, TenantId
from nac.models import Cell, Slot


def lock_free_slot(
    session: Session, *, label: str = "", cell_id: CellId | None = None, seen_since: datetime
) -> Slot | None:
    """Lock and return a free slot (port pair of a cell) in the active cell with the most free slots.

    Concurrent callers get different slots. `label` and `cell_id` limit the choice to matching cells. Chooses a cell
    whose agent has not reported since `seen_since` only if no other cell has a free slot.
    """
    other = aliased(Slot)
    free_slots = (
        select(func.count())
        .where(other.cell_id == Slot.cell_id, other.status == "free")
        .correlate(Slot)
        .scalar_subquery()
    )
    query = select(Slot).join(Cell, Cell.id == Slot.cell_id).where(Slot.status == "free", Cell.status == "active")
    if label:
        query = query.where(Cell.labels.any_() == label)
    if cell_id is not None:
        query = query.where(Cell.id == cell_id)
    is_seen = func.coalesce(Cell.agent_seen_at >= seen_since, False)
    return session.scalar(
        query.order_by(is_seen.desc(), free_slots.desc(), Slot.cell_id, Slot.number)
        .limit(1)
        .with_for_update(of=Slot, skip_locked=True)
    )


def count_retired(session: Session) -> int:
    """Count the slots (port pairs) of active cells that wait for a new RADIUS secret."""
    query = select(func.count()).join_from(Slot, Cell).where(Slot.status == "retired", Cell.status == "active")
    return session.scalars(query).one()


def get_slot_of_tenant(session: Session, tenant_id: TenantId) -> Slot | None:
    return session.scalar(select(Slot).where(Slot.tenant_id == tenant_id))


def list_slots_held_for(session: Session, tenant_id: TenantId) -> Sequence[Slot]:
    """Return the tenant's slot (port pair of a cell). During a move, also returns the slot in the other cell."""
    return session.scalars(select(Slot).where(or_(Slot.tenant_id == tenant_id, Slot.reserved_for == tenant_id))).all()


def list_assigned_slots(session: Session) -> Sequence[Slot]:
    return session.scalars(select(Slot).where(Slot.tenant_id.is_not(None))).all()


def list_slots_of_cell(session: Session, cell_id: CellId) -> Sequence[Slot]:
    return session.scalars(select(Slot).where(Slot.cell_id == cell_id).order_by(Slot.number)).all()


def list_cells(session: Session) -> Sequence[Cell]:
    return session.scalars(select(Cell).order_by(Cell.id)).all()


def get_current_xact(session: Session) -> str:
    xact: str = session.scalars(select(cast(func.pg_current_xact_id(), Text))).one()
    return xact


def notify_cells(session: Session) -> None:
    """Send a notification of changes to all cells when the transaction ends."""
    session.execute(select(func.pg_notify("replica_changes", "")))


def is_visible_in_cell(session: Session, tenant_id: TenantId, xact: str) -> bool | None:
    """Return whether the tenant's cell has applied transaction `xact`.

    Returns None if the tenant has no slot (port pair) in a cell.
    """
    row = session.execute(
        select(
            func.coalesce(func.pg_visible_in_snapshot(cast(xact, Xid8), cast(Cell.replica_position, PgSnapshot)), False)
        )
        .join(Slot, Slot.cell_id == Cell.id)
        .where(Slot.tenant_id == tenant_id)
    ).first()
    return None if row is None else bool(row[0])
