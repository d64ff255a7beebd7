"""Moves of tenants to another cell."""

from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Path, Query, Request
from pydantic import BaseModel, Field
from sqlalchemy.orm import Session

from api.access import Access, ChangesPlatform, ReadsPlatform, ReadsTenant
from api.change import Change, Observed
from api.state import settings_of, signing_of
from api.v1.inputs import Input, body_references
from nac.accounts.effects import Effect
from nac.accounts.permissions import Permission
from nac.db import enter_platform, enter_tenant
from nac.ids import TenantId
from nac.tenants import moves
from nac.tenants.moves import MoveStatus
from nac.tenants.service import TenantNotFound

router = APIRouter(tags=["moves"])

_MOVE = "/cells/moves/{tenant}"
_AlthoughSilent = Annotated[
    bool, Query(description="Although the cell before does not report, and so answers on until its radiusd is stopped.")
]
_Tenant = Annotated[str, Path(description="Slug or id.", max_length=63)]
Reads = Annotated[Access, Depends(ReadsPlatform(Permission.CELL_READ))]
Manages = Annotated[Access, Depends(ChangesPlatform(Permission.CELL_MANAGE, Effect.PLATFORM))]
ReadsOwn = Annotated[Access, Depends(ReadsTenant(Permission.TENANT_READ))]


class MovePlace(BaseModel):
    """Where NASes send to."""

    address: str = Field(description="Of that cell, or else of the platform.", examples=["radius.example"])
    auth_port: int = Field(description="UDP port for authentication.")
    acct_port: int = Field(description="UDP port for accounting.")


class TenantMove(BaseModel):
    """What has to be changed at NASes. Their secrets stay as they are."""

    state: str = Field(description="prepared: `after` does not answer yet. switched: `before` answers no more.")
    before: MovePlace | None = Field(description="Where the tenant was answered before; null where that is over.")
    after: MovePlace | None = Field(description="Where the tenant is answered afterwards; null where that is over.")
    told: str = Field(description="What is to be done at NASes now, in a sentence.")
    created_at: datetime = Field(description="When it was made.")
    switched_at: datetime | None = Field(description="When it was switched.")
    ended_at: datetime | None = Field(description="When it ended; null while it has not.")


class Move(TenantMove, Observed):
    from_cell: str = Field(description="Name of the cell that it leaves.")
    to_cell: str = Field(description="Name of the cell that it goes to.")
    ready: bool = Field(description="Whether it can be switched or finished.")

    def observed(self) -> set[str]:
        return {"ready"}


class MoveInput(Input):
    cell: str = Field(max_length=200, examples=["cell-2"], description="Name of the cell that the tenant goes to.")


@router.get("/tenants/{tenant}/move", operation_id="getTenantMove")
def get_own_move(access: ReadsOwn) -> TenantMove:
    """The last one, and what has to be done at NASes."""
    with access.read() as session:
        # Both cells are shown.
        enter_platform(session, tenant_id=access.tenant_id)
        status = moves.require_move(session, tenant_id=access.tenant_id)
        return access.shown(TenantMove(**_shown(access, status)))


@router.get(_MOVE, operation_id="getMove")
def get_move(access: Reads, tenant: _Tenant) -> Move:
    """The last one of the tenant."""
    with access.read() as session:
        tenant_id = _enter(session, access)
        return access.shown(_move(access, moves.require_move(session, tenant_id=tenant_id)))


@router.post(_MOVE, status_code=201, operation_id="prepareMove")
def prepare_move(request: Request, access: Manages, tenant: _Tenant, body: MoveInput) -> Move:
    """A free slot of the cell is configured with the tenant's secret; for its NASes nothing changes yet."""
    with access.change() as change:
        sealer = signing_of(request).sealer
        tenant_id = _enter(change.session, access)
        _require_match(change, access, tenant_id)
        with body_references():
            status = moves.prepare_move(
                change.session, actor=access.actor, tenant_id=tenant_id, cell=body.cell, sealer=sealer
            )
        change.located()
        return change.answer(_move(access, status))


@router.post(f"{_MOVE}/switch", operation_id="switchMove")
def switch_move(
    request: Request,
    access: Manages,
    tenant: _Tenant,
    although_silent: _AlthoughSilent = False,
) -> Move:
    """From now on the new cell decides, and the one before answers no more; `?wait=live` answers when it does."""
    with access.change() as change:
        sealer = signing_of(request).sealer
        tenant_id = _enter(change.session, access)
        _require_match(change, access, tenant_id)
        status = moves.switch_move(
            change.session, actor=access.actor, tenant_id=tenant_id, sealer=sealer, although_silent=although_silent
        )
        return _answer(access, change, tenant_id, status)


@router.post(f"{_MOVE}/finish", operation_id="finishMove")
def finish_move(access: Manages, tenant: _Tenant) -> Move:
    """The slot of before goes back to its cell."""
    with access.change() as change:
        tenant_id = _enter(change.session, access)
        _require_match(change, access, tenant_id)
        status = moves.finish_move(change.session, actor=access.actor, tenant_id=tenant_id)
        return _answer(access, change, tenant_id, status)


@router.post(f"{_MOVE}/cancel", operation_id="cancelMove")
def cancel_move(access: Manages, tenant: _Tenant) -> Move:
    """As it was before: a tenant that was switched goes back at once."""
    with access.change() as change:
        tenant_id = _enter(change.session, access)
        _require_match(change, access, tenant_id)
        status = moves.cancel_move(change.session, actor=access.actor, tenant_id=tenant_id)
        return _answer(access, change, tenant_id, status)


def _require_match(change: Change, access: Access, tenant_id: TenantId) -> None:
    last = moves.lock_last_move(change.session, tenant_id=tenant_id)
    change.require_match(None if last is None else _move(access, last))


def _answer(access: Access, change: Change, tenant_id: TenantId, status: MoveStatus) -> Move:
    change.tenant_id = tenant_id
    return change.answer(_move(access, status))


def _enter(session: Session, access: Access) -> TenantId:
    place = access.asked.tenant
    if place is None:
        raise TenantNotFound("There is no such tenant.", place="tenant")
    enter_tenant(session, place.tenant_id)
    return place.tenant_id


def _move(access: Access, status: MoveStatus) -> Move:
    return Move(
        **_shown(access, status), from_cell=status.before.cell, to_cell=status.after.cell, ready=status.is_ready
    )


def _shown(access: Access, status: MoveStatus) -> dict[str, Any]:
    move, usual = status.move, settings_of(access.asked.request).radius_host
    return {
        "state": move.state,
        "before": _place(status.before, usual),
        "after": _place(status.after, usual),
        "told": status.told,
        "created_at": move.created_at,
        "switched_at": move.switched_at,
        "ended_at": move.ended_at,
    }


def _place(place: moves.CellAddress, usual: str) -> MovePlace | None:
    """None where its cell is no more."""
    if not place.cell:
        return None
    return MovePlace(address=place.address or usual, auth_port=place.auth_port, acct_port=place.acct_port)
