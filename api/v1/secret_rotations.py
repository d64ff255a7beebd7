"""Rotation of RADIUS secrets. During a rotation, the old and the new secret work."""

from datetime import datetime
from typing import Annotated, Any, Literal

from fastapi import Depends, Query
from pydantic import BaseModel, Field

from api.access import Access, ChangesTenant, ReadsTenant
from api.change import Change, ObservedModel
from api.routes import NounRouter
from api.v1.inputs import Input, body_example, body_references
from api.v1.paging import Page, Paging
from nac.kit.clock import utc_now
from nac.kit.permissions import Effect, Permission
from nac.tenancy.secret_rotations import service as rotations
from nac.tenancy.secret_rotations.instructions import ChangeWay, advise_nas, list_steps
from nac.tenancy.secret_rotations.repository import RotationNas
from nac.tenancy.secret_rotations.service import RotationStage, RotationStatus

router = NounRouter(
    prefix="/tenants/{tenant}/radius-secret/rotation",
    tag="secret rotation",
    description="Rotation of a RADIUS secret. During a rotation, the old and the new secret work.",
)

Reads = Annotated[Access, Depends(ReadsTenant(Permission.NAS_READ))]
Rotates = Annotated[Access, Depends(ChangesTenant(Permission.SECRET_ROTATE, Effect.TRUST))]
_Nas = Annotated[
    str, Query(max_length=253, description="Name of a NAS that has its own secret. Omit `nas` for the tenant's secret.")
]
NasState = Literal["unseen", "old", "new", "back"]


class SecretRotationInput(Input):
    model_config = body_example({"hours": 168, "at_end": "finish"})

    nas: str = Field(
        "", max_length=253, description='Name of the NAS whose own secret to rotate; "" for the tenant\'s secret.'
    )
    secret: str | None = Field(None, max_length=128, description="New secret; null to generate a secret.")
    hours: int = Field(
        168, ge=1, le=720, examples=[168], description="Number of hours for which the old and the new secret work."
    )
    at_end: Literal["finish", "wait"] = Field(
        "finish",
        description=(
            "Action after `hours`: reject the old secret (finish), or accept both secrets until you end the "
            "rotation (wait)."
        ),
    )


class SecretRotationEnd(Input):
    model_config = body_example({"leave_behind": False})

    nas: str = Field(
        "", max_length=253, description='Name of the NAS whose own secret rotates; "" for the tenant\'s secret.'
    )
    leave_behind: bool = Field(
        False,
        description=(
            "Whether to end the rotation even if NASes still use the ending secret. Admit then does not respond to "
            "NASes with the ending secret."
        ),
    )


class SecretRotationCounts(BaseModel):
    """Number of NASes by the secret that they use.

    `back` is the number of NASes that used the new secret, then the old secret again.
    """

    unseen: int = Field(0, description="Number of NASes without a request since the start of the rotation.")
    old: int = Field(0, description="Number of NASes whose last request used the old secret.")
    new: int = Field(0, description="Number of NASes that use the new secret.")
    back: int = Field(0, description="Number of NASes that used the new secret, then the old secret again.")


class SecretRotation(ObservedModel):
    nas: str | None = Field(description="Name of the NAS whose own secret rotates; null for the tenant's secret.")
    state: RotationStage = Field(description="State of the rotation. If `open`, the old and the new secret work.")
    at_end: Literal["finish", "wait"] = Field(
        description=(
            "Action at the end of the rotation period: reject the old secret (finish), or accept both secrets (wait)."
        )
    )
    created_at: datetime = Field(description="Time when the rotation was created.")
    opened_at: datetime | None = Field(
        description="Time when both secrets began to work; null while cells prepare the rotation."
    )
    ends_at: datetime = Field(description="End of the period in which the old and the new secret work.")
    ended_at: datetime | None = Field(description="Time when the rotation ended; null if the rotation has not ended.")
    nases: SecretRotationCounts = Field(description="Number of NASes by the secret that they use.")
    plan: list[str] = Field(description="Next steps of the rotation.")

    def observed_fields(self) -> set[str]:
        """Return the fields that change without a request of the user, because NASes send requests and cells report."""
        return {"state", "opened_at", "nases", "plan"}


class SecretRotationNas(BaseModel):
    key: str = Field(description="Unique key of the NAS in this list.")
    name: str = Field(description="Name of the NAS.")
    state: NasState = Field(description="State of the NAS in the rotation, by the secret that the NAS uses.")
    new_since: datetime | None = Field(description="Time of the first request of the NAS with the new secret.")
    last_seen: datetime | None = Field(description="Time of the last request of the NAS.")
    source: str | None = Field(description="Source address of requests of the NAS.")
    way: ChangeWay = Field(
        description=(
            "How to change the secret on the NAS: `alone` (at any time), `together` (with all NASes that have the "
            "same source address), or `watched` (check the log, because Admit cannot always detect the secret)."
        )
    )
    plan: str = Field(description="Instructions for changing the secret on the NAS.")


@router.post("", status_code=201, operation_id="startSecretRotation")
def start_rotation(access: Rotates, body: SecretRotationInput) -> SecretRotation:
    """Start a rotation of a RADIUS secret.

    When the rotation is `open`, each NAS can use the old or the new secret. Use `revealRadiusSecret` with `next` to get
    the new secret.
    """
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
        return change.answer(_build_rotation(status))


@router.get("", operation_id="getSecretRotation")
def get_rotation(access: Reads, nas: _Nas = "") -> SecretRotation:
    """Get the last rotation of a RADIUS secret, with the next steps."""
    with access.read() as session:
        return access.shown(_build_rotation(rotations.require_status(session, tenant_id=access.tenant_id, nas=nas)))


@router.get("/nases", operation_id="listSecretRotationNases")
def list_nases(
    access: Reads,
    paging: Annotated[Paging, Depends()],
    nas: _Nas = "",
    state: Annotated[NasState | None, Query(description="State of the NASes to list.")] = None,
) -> Page[SecretRotationNas]:
    """List NASes of the last rotation, with the secret that each NAS uses and the next steps."""
    with access.read() as session:
        rows = rotations.list_page(
            session,
            tenant_id=access.tenant_id,
            nas=nas,
            state=state or "",
            after=paging.after(),
            limit=paging.limit + 1,
        )
        return paging.page(rows, lambda row: row.key, lambda row: SecretRotationNas(**_describe_nas(row)))


@router.post("/finish", operation_id="finishSecretRotation")
def finish_rotation(access: Rotates, body: SecretRotationEnd) -> SecretRotation:
    """Finish a rotation of a RADIUS secret, so that only the new secret works."""
    with access.change() as change:
        _require_match(change, access, body.nas)
        status = rotations.finish_rotation(
            change.session,
            actor=access.actor,
            tenant_id=access.tenant_id,
            sealer=access.sealer,
            **body.model_dump(),
        )
        return change.answer(_build_rotation(status))


@router.post("/cancel", operation_id="cancelSecretRotation")
def cancel_rotation(access: Rotates, body: SecretRotationEnd) -> SecretRotation:
    """Cancel a rotation of a RADIUS secret, so that only the old secret works."""
    with access.change() as change:
        _require_match(change, access, body.nas)
        status = rotations.cancel_rotation(
            change.session, actor=access.actor, tenant_id=access.tenant_id, **body.model_dump()
        )
        return change.answer(_build_rotation(status))


def _require_match(change: Change, access: Access, nas: str) -> None:
    with body_references():
        last = rotations.lock_last_status(change.session, tenant_id=access.tenant_id, nas=nas)
    change.require_match(None if last is None else _build_rotation(last))


def _build_rotation(status: RotationStatus) -> SecretRotation:
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
        plan=list_steps(status, stage),
    )


def _describe_nas(nas: RotationNas) -> dict[str, Any]:
    advice = advise_nas(nas)
    return {
        "key": nas.key,
        "name": nas.name,
        "state": nas.state,
        "new_since": nas.new_since,
        "last_seen": max((each for each in (nas.old_at, nas.new_at) if each), default=None),
        "source": nas.source or nas.address,
        "way": advice.way,
        "plan": advice.text,
    }
