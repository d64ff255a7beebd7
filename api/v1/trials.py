"""Trials of the platform."""

from datetime import datetime
from typing import Annotated, cast
from uuid import UUID

from fastapi import Depends, Path, Query, Request
from pydantic import Field
from sqlalchemy.orm import Session

from api.access import Access, ChangesPlatform, ReadsPlatform
from api.change import Change, ObservedModel
from api.routes import NounRouter
from api.sign_up_flow import build_sign_up_context
from api.v1.inputs import Input, body_references
from api.v1.paging import OrderedPaging, Page, require_paging
from nac.kit.ids import TenantId
from nac.kit.permissions import Effect, Permission
from nac.models import Trial as TrialRow
from nac.models.trial import TrialState
from nac.onboarding.trials import lifecycle
from nac.onboarding.trials import service as trials
from nac.onboarding.trials.repository import ORDERS

router = NounRouter(prefix="/trials", tag="trials", description="Trials, which are tenants with limits and an end.")

Reads = Annotated[Access, Depends(ReadsPlatform(Permission.MSP_READ))]
Changes = Annotated[Access, Depends(ChangesPlatform(Permission.MSP_CREATE, Effect.PLATFORM))]
Converts = Annotated[
    Access,
    Depends(ChangesPlatform(Permission.MSP_CREATE, Effect.PLATFORM, Effect.RIGHTS, also={Permission.MEMBER_MANAGE})),
]
_TenantId = Annotated[UUID, Path(description="Id of the tenant on trial.")]


class Trial(ObservedModel):
    tenant_id: UUID = Field(description="Id of the tenant on trial; null if the tenant does not exist.")
    tenant: str = Field(description="Slug of the tenant on trial.")
    organisation: str = Field(examples=["Hill School"], description="Name of the organisation that signed up.")
    email: str = Field(description="E-mail address of the person who signed up.")
    state: TrialState = Field(description="State of the trial.")
    ends_at: datetime = Field(description="End of the trial.")
    purged_at: datetime = Field(
        description="Time when Admit deletes the data of the trial, unless you convert the trial."
    )
    most_endpoints: int = Field(description="Maximum number of endpoints during the trial.")
    most_authentications_a_day: int = Field(description="Maximum number of authentications per day during the trial.")
    over_since: datetime | None = Field(
        description=(
            "Time when the trial began to exceed its maximum number of authentications; null if the trial is "
            "within the maximum."
        )
    )
    created_at: datetime = Field(description="Time when the trial was created.")

    def observed_fields(self) -> set[str]:
        return {"over_since"}


class TrialConversion(Input):
    msp: str = Field(
        "", max_length=63, examples=["acme"], description='Slug of the tenant\'s new MSP; "" to keep the current MSP.'
    )


class TrialExtension(Input):
    days: int = Field(
        ge=1, le=lifecycle.MAX_EXTENSION_DAYS, examples=[14], description="Number of days to add to the trial."
    )


@router.get("", operation_id="listTrials")
def list_trials(
    access: Reads,
    paging: Annotated[OrderedPaging, Depends(require_paging(ORDERS))],
    text: Annotated[
        str, Query(max_length=255, description="Part of the organisation or e-mail address of the trials to list.")
    ] = "",
    state: Annotated[list[TrialState] | None, Query(description="State of the trials to list.")] = None,
) -> Page[Trial]:
    """List trials, including converted trials."""
    with access.read() as session:
        rows = trials.list_trials(session, span=paging.span, text=text, states=state or ())
        slugs = trials.slugs_by_tenant(session, rows)
        return paging.ordered(rows, lambda row: _build_trial(row, slugs.get(row.tenant_id, "")))


@router.get("/{tenant_id}", operation_id="getTrial")
def get_trial(access: Reads, tenant_id: _TenantId) -> Trial:
    """Get a trial."""
    with access.read() as session:
        return access.shown(_read_trial(session, trials.require_trial(session, tenant_id=TenantId(tenant_id))))


@router.post("/{tenant_id}/convert", operation_id="convertTrial")
def convert_trial(request: Request, access: Converts, tenant_id: _TenantId, body: TrialConversion) -> Trial:
    """Convert a trial to an ordinary tenant, without limits or end.

    Ports, secret and rules stay unchanged. `msp` requires `member.manage` too, because that MSP's members get full
    access.
    """
    if body.msp:
        access.require(Permission.MEMBER_MANAGE)
    with access.change() as change:
        _require_match(change, tenant_id)
        with body_references():
            row = lifecycle.convert_trial(
                change.session,
                build_sign_up_context(request),
                actor=access.actor,
                tenant_id=TenantId(tenant_id),
                msp=body.msp,
            )
        return change.answer(_read_trial(change.session, row))


@router.post("/{tenant_id}/extend", operation_id="extendTrial")
def extend_trial(access: Changes, tenant_id: _TenantId, body: TrialExtension) -> Trial:
    """Extend a trial from the end of the trial, or from now if the trial has ended.

    If the end of the trial suspended the tenant, Admit resumes the tenant.
    """
    with access.change() as change:
        _require_match(change, tenant_id)
        row = lifecycle.extend_trial(change.session, actor=access.actor, tenant_id=TenantId(tenant_id), days=body.days)
        return change.answer(_read_trial(change.session, row))


def _require_match(change: Change, tenant_id: UUID) -> None:
    row = trials.require_trial(change.session, tenant_id=TenantId(tenant_id), lock=True)
    change.require_match(_read_trial(change.session, row))


def _read_trial(session: Session, row: TrialRow) -> Trial:
    return _build_trial(row, trials.slugs_by_tenant(session, [row])[row.tenant_id])


def _build_trial(row: TrialRow, slug: str) -> Trial:
    return Trial(
        tenant_id=row.tenant_id,
        tenant=slug,
        organisation=row.organisation,
        email=row.email,
        state=cast(TrialState, row.state),
        ends_at=row.ends_at,
        purged_at=row.purged_at,
        most_endpoints=row.most_endpoints,
        most_authentications_a_day=row.most_authentications,
        over_since=row.over_since,
        created_at=row.created_at,
    )
