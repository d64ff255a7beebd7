"""Secrets change over, with a time in which both work."""

from datetime import datetime
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Query
from pydantic import BaseModel, Field

from api.access import Access, ChangesTenant, ReadsTenant
from api.change import Change, Observed
from api.remedies import of_the_api
from api.v1.inputs import Input, body_references
from api.v1.paging import Page, Paging
from nac.accounts.effects import Effect
from nac.accounts.permissions import Permission
from nac.clock import utc_now
from nac.secret_rotations import service as rotations
from nac.secret_rotations.instructions import ChangeWay, advise_nas, list_steps
from nac.secret_rotations.repository import RotationNas
from nac.secret_rotations.service import RotationStage, RotationStatus

router = APIRouter(prefix="/tenants/{tenant}/radius-secret/rotation", tags=["secret rotation"])

Reads = Annotated[Access, Depends(ReadsTenant(Permission.NAS_READ))]
Rotates = Annotated[Access, Depends(ChangesTenant(Permission.SECRET_ROTATE, Effect.TRUST))]
_Nas = Annotated[str, Query(max_length=253, description="With a secret of its own; else it is the tenant's.")]
NasState = Literal["unseen", "old", "new", "back"]


class SecretRotationInput(Input):
    nas: str = Field(
        "", max_length=253, description="Name of the NAS or, where it is not registered, what it says of itself."
    )
    secret: str | None = Field(None, max_length=128, description="The secret. Where it is told, it is this once.")
    hours: int = Field(168, ge=1, le=720, examples=[168], description="How long both secrets work.")
    at_end: Literal["finish", "wait"] = Field(
        "finish",
        description="Whether the new secret alone works from the end of the window on, or a person decides "
        "where NASes have not changed over.",
    )


class SecretRotationEnd(Input):
    nas: str = Field(
        "", max_length=253, description="Name of the NAS or, where it is not registered, what it says of itself."
    )
    leave_behind: bool = Field(
        False, description="Also where NASes have the secret that ends, which get no answer from then on."
    )


class SecretRotationCounts(BaseModel):
    """NASes by what they were heard with. `back`: with the new one, and since then with the old one."""

    unseen: int = Field(0, description="NASes that were not heard since it began.")
    old: int = Field(0, description="NASes that were heard with the old secret last.")
    new: int = Field(0, description="NASes that have changed over.")
    back: int = Field(0, description="NASes that had changed over, and were heard with the old secret since.")


class SecretRotation(Observed):
    nas: str | None = Field(description="Name of the NAS or, where it is not registered, what it says of itself.")
    state: RotationStage = Field(description="How far it is.")
    at_end: Literal["finish", "wait"] = Field(
        description="What happens at the end of the window to NASes that have not changed over."
    )
    created_at: datetime = Field(description="When it was made.")
    opened_at: datetime | None = Field(description="From when on both secrets work; null while cells prepare.")
    ends_at: datetime = Field(description="When the trial ends.")
    ended_at: datetime | None = Field(description="When it ended; null while it has not.")
    nases: SecretRotationCounts = Field(description="How many sessions, by NAS.")
    plan: list[str] = Field(description="What is to be done, step by step.")

    def observed(self) -> set[str]:
        """When it ended, and thereby that it did, somebody has said."""
        return {"state", "opened_at", "nases", "plan"}


class SecretRotationNas(BaseModel):
    key: str = Field(description="The private key.")
    name: str = Field(description="Name, for people.")
    state: NasState = Field(description="How far it is.")
    new_since: datetime | None = Field(description="When it was first heard with the new secret.")
    last_seen: datetime | None = Field(description="When it was heard last.")
    source: str | None = Field(description="Who says so: dhcp, lldp, cdp, http, radius, api ...")
    way: ChangeWay = Field(
        description="alone: it can change over whenever it suits. together: with all that share its "
        "address. watched: radiusd cannot always tell."
    )
    plan: str = Field(description="What is to be done with it.")


@router.post("", status_code=201, operation_id="startSecretRotation")
def begin_rotation(access: Rotates, body: SecretRotationInput) -> SecretRotation:
    """From when it is `open` both secrets work, each NAS with the one that it has. What the new one is tells
    revealRadiusSecret, with `next`."""
    with access.change() as change:
        _require_match(change, access, body.nas)
        status = rotations.start_rotation(
            change.session,
            actor=access.actor,
            tenant_id=access.tenant_id,
            sealer=access.sealer,
            **body.model_dump(),
        )
        change.located(nas=body.nas)
        return change.answer(_shown(status))


@router.get("", operation_id="getSecretRotation")
def get_rotation(access: Reads, nas: _Nas = "") -> SecretRotation:
    """The last one, and what is to be done."""
    with access.read() as session:
        return access.shown(_shown(rotations.require_status(session, tenant_id=access.tenant_id, nas=nas)))


@router.get("/nases", operation_id="listSecretRotationNases")
def list_nases(
    access: Reads,
    paging: Annotated[Paging, Depends()],
    nas: _Nas = "",
    state: Annotated[NasState | None, Query()] = None,
) -> Page[SecretRotationNas]:
    """Which has which secret, and how each changes over. Of the last rotation."""
    with access.read() as session:
        rows = rotations.list_page(
            session,
            tenant_id=access.tenant_id,
            nas=nas,
            state=state or "",
            after=paging.after(),
            limit=paging.limit + 1,
        )
        return paging.page(rows, lambda row: row.key, lambda row: SecretRotationNas(**_row(row)))


@router.post("/finish", operation_id="finishSecretRotation")
def finish_rotation(access: Rotates, body: SecretRotationEnd) -> SecretRotation:
    """The new secret alone, from now on."""
    with access.change() as change:
        _require_match(change, access, body.nas)
        status = rotations.finish_rotation(
            change.session,
            actor=access.actor,
            tenant_id=access.tenant_id,
            sealer=access.sealer,
            **body.model_dump(),
        )
        return change.answer(_shown(status))


@router.post("/cancel", operation_id="cancelSecretRotation")
def cancel_rotation(access: Rotates, body: SecretRotationEnd) -> SecretRotation:
    """The old secret alone, as before."""
    with access.change() as change:
        _require_match(change, access, body.nas)
        status = rotations.cancel_rotation(
            change.session, actor=access.actor, tenant_id=access.tenant_id, **body.model_dump()
        )
        return change.answer(_shown(status))


def _require_match(change: Change, access: Access, nas: str) -> None:
    with body_references():
        last = rotations.lock_last_status(change.session, tenant_id=access.tenant_id, nas=nas)
    change.require_match(None if last is None else _shown(last))


def _shown(status: RotationStatus) -> SecretRotation:
    row = status.rotation
    stage = rotations.get_stage(row, utc_now())
    return SecretRotation(
        nas=status.nas.name if status.nas else None,
        state=stage,
        at_end="wait" if row.at_end == "wait" else "finish",
        created_at=row.created_at,
        opened_at=row.opened_at,
        ends_at=row.ends_at,
        ended_at=row.ended_at,
        nases=SecretRotationCounts(**status.counts),
        plan=[of_the_api(step) for step in list_steps(status, stage)],
    )


def _row(nas: RotationNas) -> dict[str, Any]:
    advice = advise_nas(nas)
    return {
        "key": nas.key,
        "name": nas.name,
        "state": nas.state,
        "new_since": nas.new_since,
        "last_seen": max((each for each in (nas.old_at, nas.new_at) if each), default=None),
        "source": nas.source or nas.address,
        "way": advice.way,
        "plan": advice.told,
    }
