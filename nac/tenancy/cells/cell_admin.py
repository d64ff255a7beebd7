"""Administration of cells by the platform's operator. All functions need PlatformScope."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from nac.core.audit import service as audit
from nac.kit.advice import Advice
from nac.kit.db.sort_orders import PageSpan, SortOrders
from nac.kit.errors import InvalidInput, NotFound
from nac.kit.ids import CellId
from nac.kit.validation import require_slug
from nac.models import Cell, Dictionary, Slot
from nac.tenancy.cells.service import is_reporting

CellStatus = Literal["active", "draining"]
MAX_LABELS = 20
_MAX_ADDRESS_LENGTH = 253


class CellNotFound(NotFound):
    """The cell does not exist."""


ORDERS = SortOrders({"name": (Cell.name,)})


@dataclass(frozen=True, slots=True)
class CellState:
    cell: Cell
    # Version of radiusd; "" if unknown.
    version: str
    # Number of slots by status.
    slots: dict[str, int] = field(default_factory=dict)
    # Lowest and highest port of the cell's slots. None if the cell has no slots.
    ports: tuple[int, int] | None = None

    @property
    def is_agent_reporting(self) -> bool:
        """Whether the agent of the cell reported recently."""
        return is_reporting(self.cell)


def list_states(session: Session, *, span: PageSpan | None = None, name: str | None = None) -> Sequence[CellState]:
    span = span or ORDERS.first()
    query = select(Cell, func.coalesce(Dictionary.server_version, "")).outerjoin(
        Dictionary, Dictionary.sha256 == Cell.dictionary_sha256
    )
    if name is not None:
        query = query.where(Cell.name == name)
    rows = session.execute(span.of(query)).all()
    counted: dict[CellId, dict[str, int]] = {}
    ports: dict[CellId, tuple[int, int]] = {}
    grouped = (
        select(Slot.cell_id, Slot.status, func.count(), func.min(Slot.auth_port), func.max(Slot.acct_port))
        .where(Slot.cell_id.in_([cell.id for cell, _ in rows]))
        .group_by(Slot.cell_id, Slot.status)
    )
    for cell_id, status, count, first, last in session.execute(grouped):
        counted.setdefault(cell_id, {})[status] = count
        known = ports.get(cell_id, (first, last))
        ports[cell_id] = (min(known[0], first), max(known[1], last))
    return [CellState(cell, version, counted.get(cell.id, {}), ports.get(cell.id)) for cell, version in rows]


def require_state(session: Session, *, name: str, lock: bool = False) -> CellState:
    if lock:
        _lock_cell(session, name)
    found = list_states(session, name=name)
    if not found:
        raise CellNotFound(f"Cell {name!r} does not exist.", place="cell", remedy=Advice("List cells", "listCells"))
    return found[0]


def _lock_cell(session: Session, name: str) -> Cell | None:
    query = select(Cell).where(Cell.name == name).with_for_update()
    return session.scalar(query.execution_options(populate_existing=True))


def update_cell(
    session: Session,
    *,
    actor: str,
    name: str,
    status: CellStatus | None = None,
    labels: Sequence[str] | None = None,
    address: str | None = None,
) -> CellState:
    """Change the values that are not None. A cell with status `draining` gets no new tenants.

    Tenants stay in a draining cell until the operator moves them.
    """
    cell = _lock_cell(session, name)
    if cell is None:
        return require_state(session, name=name)
    values: dict[str, object] = {} if status is None else {"status": status}
    if labels is not None:
        if len(labels) > MAX_LABELS:
            raise InvalidInput(
                f"{len(labels)} labels exceed the limit.", place="labels", remedy=f"Use at most {MAX_LABELS} labels."
            )
        values["labels"] = sorted({require_slug(label, place="labels") for label in labels})
    if address is not None:
        values["address"] = _require_address(address)
    before = {key: getattr(cell, key) for key in values}
    if before != values:
        for key, value in values.items():
            setattr(cell, key, value)
        session.flush()
        audit.append(session, actor=actor, action="cell.set", target=name, before=before, after=values)
    return require_state(session, name=name)


def _require_address(text: str) -> str:
    """Return the host name or address of a cell for NASes. "" means the listening address of the cell."""
    if len(text) > _MAX_ADDRESS_LENGTH or not text.isascii() or not text.isprintable() or " " in text or "/" in text:
        raise InvalidInput(
            "Invalid host name or address.", place="address", remedy="Use a host name or an address, without a port."
        )
    return text
