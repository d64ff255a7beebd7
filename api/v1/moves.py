"""Moves of tenants between cells."""

from datetime import datetime
from typing import Annotated, Any, get_args

from fastapi import Depends, Path, Query, Request
from pydantic import BaseModel, Field
from sqlalchemy.orm import Session

from api.access import Access, ChangesPlatform, ReadsPlatform, ReadsTenant
from api.application_state import get_settings, get_signing
from api.change import Change, ObservedModel
from api.routes import NounRouter
from api.v1.inputs import Input, body_references
from nac.kit.db import enter_platform, enter_tenant
from nac.kit.ids import TenantId
from nac.kit.permissions import Effect, Permission
from nac.tenancy.tenants import moves
from nac.tenancy.tenants.moves import MoveState, MoveStatus
from nac.tenancy.tenants.service import TenantNotFound

router = NounRouter(tag="moves", description="Moves of tenants between cells.")

_MOVE_PATH = "/cells/moves/{tenant}"
_IgnoreSilentCell = Annotated[
    bool,
    Query(
        description=(
            "Whether to switch although the old cell does not report. The old cell responds to RADIUS requests until"
            " its radiusd stops."
        )
    ),
]
_Tenant = Annotated[str, Path(examples=["hill-school"], description="Slug or id of the tenant.", max_length=63)]
Reads = Annotated[Access, Depends(ReadsPlatform(Permission.CELL_READ))]
Manages = Annotated[Access, Depends(ChangesPlatform(Permission.CELL_MANAGE, Effect.PLATFORM))]
ReadsOwn = Annotated[Access, Depends(ReadsTenant(Permission.TENANT_READ))]


class MovePlace(BaseModel):
    """RADIUS address and ports of a tenant in the old or new cell."""

    address: str = Field(
        description="Address of the cell, or of the platform if the cell has no address.", examples=["radius.example"]
    )
    auth_port: int = Field(description="UDP port of the tenant for authentication.")
    acct_port: int = Field(description="UDP port of the tenant for accounting.")


class TenantMove(BaseModel):
    """A move of a tenant to another cell, with the necessary changes at NASes.

    The secrets of the NASes do not change.
    """

    state: str = Field(
        description="State of the move. If `prepared`, only the old cell responds. If `switched`, only the new cell.",
        json_schema_extra={"enum": list(get_args(MoveState))},
    )
    before: MovePlace | None = Field(description="Old address and ports of the tenant; null if the move is over.")
    after: MovePlace | None = Field(description="New address and ports of the tenant; null if the move is over.")
    nas_changes: str = Field(description="Changes to make in the configuration of NASes now.")
    created_at: datetime = Field(description="Time when the move was created.")
    switched_at: datetime | None = Field(description="Time when the tenant switched to the new cell.")
    ended_at: datetime | None = Field(description="Time when the move ended; null if the move has not ended.")


class Move(TenantMove, ObservedModel):
    from_cell: str = Field(examples=["cell-1"], description="Name of the cell from which the tenant moves.")
    to_cell: str = Field(examples=["cell-2"], description="Name of the cell to which the tenant moves.")
    ready: bool = Field(
        description="Whether you can now switch the move (state `prepared`) or finish the move (state `switched`)."
    )

    def observed_fields(self) -> set[str]:
        return {"ready"}


class MoveInput(Input):
    cell: str = Field(max_length=200, examples=["cell-2"], description="Name of the cell to which the tenant moves.")


@router.get("/tenants/{tenant}/move", operation_id="getTenantMove")
def get_own_move(access: ReadsOwn) -> TenantMove:
    """Get the last move of a tenant between cells, and the changes to make at NASes."""
    with access.read() as session:
        # A session of the tenant cannot read both cells.
        enter_platform(session, tenant_id=access.tenant_id)
        status = moves.require_move(session, tenant_id=access.tenant_id)
        return access.shown(TenantMove(**_describe_move(access, status)))


@router.get(_MOVE_PATH, operation_id="getMove")
def get_move(access: Reads, tenant: _Tenant) -> Move:
    """Get the last move of a tenant between cells."""
    with access.read() as session:
        tenant_id = _enter_named_tenant(session, access)
        return access.shown(_build_move(access, moves.require_move(session, tenant_id=tenant_id)))


@router.post(_MOVE_PATH, status_code=201, operation_id="prepareMove")
def prepare_move(request: Request, access: Manages, tenant: _Tenant, body: MoveInput) -> Move:
    """Prepare a move: reserve and configure a free port pair (slot) of the new cell.

    The port pair gets the tenant's RADIUS secret. Nothing changes for the tenant's NASes yet.
    """
    with access.change() as change:
        sealer = get_signing(request).sealer
        tenant_id = _enter_named_tenant(change.session, access)
        _require_match(change, access, tenant_id)
        with body_references():
            status = moves.prepare_move(
                change.session, actor=access.actor, tenant_id=tenant_id, cell=body.cell, sealer=sealer
            )
        change.located()
        return change.answer(_build_move(access, status))


@router.post(f"{_MOVE_PATH}/switch", operation_id="switchMove")
def switch_move(
    request: Request,
    access: Manages,
    tenant: _Tenant,
    although_silent: _IgnoreSilentCell = False,
) -> Move:
    """Switch a tenant to the new cell.

    The old cell stops responding to the tenant's NASes. `?wait=live` waits until the new cell responds, 5 seconds at
    most.
    """
    with access.change() as change:
        sealer = get_signing(request).sealer
        tenant_id = _enter_named_tenant(change.session, access)
        _require_match(change, access, tenant_id)
        status = moves.switch_move(
            change.session, actor=access.actor, tenant_id=tenant_id, sealer=sealer, although_silent=although_silent
        )
        return _respond_with_move(access, change, tenant_id, status)


@router.post(f"{_MOVE_PATH}/finish", operation_id="finishMove")
def finish_move(access: Manages, tenant: _Tenant) -> Move:
    """Finish a move, so that the old cell can reuse the tenant's old port pair (slot)."""
    with access.change() as change:
        tenant_id = _enter_named_tenant(change.session, access)
        _require_match(change, access, tenant_id)
        status = moves.finish_move(change.session, actor=access.actor, tenant_id=tenant_id)
        return _respond_with_move(access, change, tenant_id, status)


@router.post(f"{_MOVE_PATH}/cancel", operation_id="cancelMove")
def cancel_move(access: Manages, tenant: _Tenant) -> Move:
    """Cancel a move.

    A switched tenant returns to the old cell immediately.
    """
    with access.change() as change:
        tenant_id = _enter_named_tenant(change.session, access)
        _require_match(change, access, tenant_id)
        status = moves.cancel_move(change.session, actor=access.actor, tenant_id=tenant_id)
        return _respond_with_move(access, change, tenant_id, status)


def _require_match(change: Change, access: Access, tenant_id: TenantId) -> None:
    last = moves.lock_last_move(change.session, tenant_id=tenant_id)
    change.require_match(None if last is None else _build_move(access, last))


def _respond_with_move(access: Access, change: Change, tenant_id: TenantId, status: MoveStatus) -> Move:
    change.tenant_id = tenant_id
    return change.answer(_build_move(access, status))


def _enter_named_tenant(session: Session, access: Access) -> TenantId:
    place = access.asked.tenant
    if place is None:
        raise TenantNotFound("The tenant does not exist.", place="tenant")
    enter_tenant(session, place.tenant_id)
    return place.tenant_id


def _build_move(access: Access, status: MoveStatus) -> Move:
    return Move(
        **_describe_move(access, status), from_cell=status.before.cell, to_cell=status.after.cell, ready=status.is_ready
    )


def _describe_move(access: Access, status: MoveStatus) -> dict[str, Any]:
    move, usual = status.move, get_settings(access.asked.request).radius_host
    return {
        "state": move.state,
        "before": _build_place(status.before, usual),
        "after": _build_place(status.after, usual),
        "nas_changes": status.next_step,
        "created_at": move.created_at,
        "switched_at": move.switched_at,
        "ended_at": move.ended_at,
    }


def _build_place(place: moves.CellAddress, usual: str) -> MovePlace | None:
    """Return the tenant's address and ports in a cell; None if the cell does not exist."""
    if not place.cell:
        return None
    return MovePlace(address=place.address or usual, auth_port=place.auth_port, acct_port=place.acct_port)
