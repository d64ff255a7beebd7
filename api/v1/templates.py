"""Templates of an MSP: what its tenants have in common, who follows them, and versions on their way to them."""

from datetime import datetime
from typing import Annotated, Any, Literal, cast
from uuid import UUID

from fastapi import APIRouter, Depends, Path, Query
from pydantic import BaseModel, Field
from sqlalchemy.orm import Session

from api.access import Access, ChangesMsp, ReadsMsp
from api.change import Change, Observed
from api.remedies import of_the_api
from api.state import signing_of
from api.v1.inputs import Input, Name, Slug, body_references
from api.v1.paging import OrderedPaging, Page, sorted_by
from nac.accounts.effects import Effect
from nac.accounts.permissions import Permission
from nac.ids import TenantId
from nac.models import Rollout as RolloutRow
from nac.models import Template as TemplateRow
from nac.models import TemplateVersion as VersionRow
from nac.templates import repository, rollouts
from nac.templates import service as templates
from nac.templates.part_permissions import CHANGE_ALL_PARTS, READ_ALL_PARTS
from nac.templates.rollouts import MAX_MINUTES, MAX_STAGES, MIN_MINUTES

router = APIRouter(prefix="/msps/{msp}/templates", tags=["templates"])

Reads = Annotated[Access, Depends(ReadsMsp(Permission.TEMPLATE_READ))]
# What a tenant has otherwise takes, there, what it takes to read it (nac.templates.part_permissions).
Compares = Annotated[Access, Depends(ReadsMsp(Permission.TEMPLATE_READ, Effect.DISCLOSURE, also=READ_ALL_PARTS))]
Changes = Annotated[Access, Depends(ChangesMsp(Permission.TEMPLATE_MANAGE, Effect.DRAFT))]
# At each tenant that is concerned it takes what its parts take there (nac.templates.part_permissions).
RollsOut = Annotated[
    Access,
    Depends(
        ChangesMsp(
            Permission.TEMPLATE_MANAGE,
            *(Effect.RULES, Effect.FACTS, Effect.TRUST, Effect.DRAFT),
            also=CHANGE_ALL_PARTS,
        )
    ),
]
_TOLD = {"tenant", "state", "detail"}
_NUMBER = Path(ge=1, le=2**31 - 1)
_EXAMPLE = {
    "endpoint_groups": ["printers"],
    "policies": [{"slug": "office", "document": {"rules": [], "fallback": {"verdict": "deny"}}}],
    "sites": [{"slug": "main", "time_zone": "Europe/Berlin", "policy": "office"}],
    "settings": {"methods": ["eap-tls", "mab"], "replay_days": 7},
}


class Template(BaseModel):
    slug: str = Field(description="Its name in addresses: a DNS label.")
    name: str = Field(description="Name, for people.")
    newest: int = Field(description="Number of the newest version; 0 where there is none.")
    created_at: datetime = Field(description="When it was made.")
    updated_at: datetime = Field(description="When it was changed last.")


class TemplateInput(Input):
    slug: Slug = Field(examples=["school"], description="Its name in addresses: a DNS label.")
    name: Name = Field("", description="Name, for people.")


class TemplateUpdate(Input):
    name: Name = Field(examples=["Schools"], description="Name, for people.")


class TemplateVersion(BaseModel):
    number: int = Field(description="Number of the version, from 1.")
    comment: str = Field(description='Why, in words. "": nothing was said.')
    created_by: str = Field(description="Who made it.")
    created_at: datetime = Field(description="When it was made.")


class TemplateVersionDetail(TemplateVersion):
    document: dict[str, Any] = Field(description="The template, as docs/how-to/templates.md describes it.")


class TemplateVersionInput(Input):
    document: dict[str, Any] = Field(
        examples=[_EXAMPLE], description="The template, as docs/how-to/templates.md describes it."
    )
    comment: str = Field("", max_length=1_000, description='Why, in words. "": nothing was said.')


class TemplateDifference(BaseModel):
    part: str = Field(examples=["site:main.time_zone"], description="The part of the template, as a path.")
    wanted: Any = Field(description="What the template says; null: nothing.")
    found: Any = Field(description="What the tenant has; null: nothing.")


class TemplateFollower(BaseModel):
    tenant: str = Field(description="Slug of the tenant.")
    version: int | None = Field(description="Number of the version that was brought to it last; null: none yet.")
    applied_at: datetime | None = Field(description="When it was brought there last.")
    overrides: list[str] = Field(
        description="Parts that are the tenant's own: a site with all that is said of it, or one thing."
    )
    drift: list[TemplateDifference] | None = Field(
        description="What the tenant has changed since; null where it was not asked for."
    )


class TemplateFollowerInput(Input):
    overrides: list[Annotated[str, Field(max_length=300)]] = Field(
        [],
        max_length=templates.MAX_OVERRIDES,
        examples=[["policy:office", "site:main.time_zone"]],
        description="Parts that are the tenant's own: a site with all that is said of it, or one thing.",
    )


class StageInput(Input):
    """`tenants`, or a `share` in percent of all that are behind, those of earlier stages included."""

    tenants: list[Slug] | None = Field(
        None, max_length=10_000, description="Slugs of tenants that follow the template; null where a share is given."
    )
    share: int | None = Field(
        None, ge=1, le=100, description="The share of tenants in per cent; null where they are named."
    )
    minutes: int = Field(
        ge=MIN_MINUTES, le=MAX_MINUTES, description="How many minutes its tenants are watched before the next stage."
    )


class RolloutInput(Input):
    version: int = Field(ge=1, le=2**31 - 1, description="Number of the version.")
    stages: list[StageInput] = Field(
        min_length=1,
        max_length=MAX_STAGES,
        examples=[[{"tenants": ["hill-school"], "minutes": 60}]],
        description="Stages, one after the other; all that are left are in the last one.",
    )
    most_moved: float = Field(
        0.05,
        gt=0,
        le=1,
        description="The roll-out stops where the share of devices that are rejected moves by more than "
        "this (0 to 1), up or down.",
    )
    back_when_moved: bool = Field(
        False, description="Where it moves, the tenants get back at once what they had; else the roll-out stops there."
    )


class RolloutTenant(BaseModel):
    tenant: str = Field(description="Slug of the tenant.")
    stage: int = Field(description="Number of the stage, from 1.")
    state: Literal["waiting", "applied", "failed", "rolled-back", "left-out"] = Field(description="How far it is.")
    detail: str = Field(description='What is so, in a sentence for people. "" where there is nothing to say.')
    applied_at: datetime | None = Field(description="When it was brought there last.")
    rejected_before: int | None = Field(description="Devices that were rejected in the time before.")
    devices_before: int | None = Field(description="Devices that authenticated in the time before.")
    rejected_since: int | None = Field(description="Devices that were rejected since.")
    devices_since: int | None = Field(description="Devices that authenticated since.")


class Rollout(BaseModel):
    id: UUID = Field(description="Id; it stays.")
    version: int = Field(description="Number of the version.")
    state: Literal["running", "stopped", "done", "rolling-back", "rolled-back"] = Field(description="How far it is.")
    stage: int = Field(description="Number of the stage, from 1.")
    stages: list[int] = Field(description="Minutes that each is watched for.")
    most_moved: float = Field(
        description="The roll-out stops where the share of devices that are rejected moves by more than "
        "this (0 to 1), up or down."
    )
    back_when_moved: bool = Field(
        description="Whether it goes back by itself where it is stopped because devices are rejected "
        "otherwise than before."
    )
    job_id: UUID | None = Field(description="The job of the MSP that brings it on; if that ends, it is stopped.")
    detail: str = Field(description='Why it stopped; "" where it did not.')
    asked_by: str = Field(description="Who asked for it, such as token:setup.")
    created_at: datetime = Field(description="When it was made.")
    ended_at: datetime | None = Field(description="When it ended; null while it has not.")


class RolloutDetail(Rollout, Observed):
    tenants: list[RolloutTenant] = Field(description="Tenants of the MSP; null for all, those to come included.")

    def observed(self) -> set[str]:
        """While it is under way its job brings it on."""
        return {"stage", "tenants", "detail"} if self.state in ("running", "rolling-back") else set()


@router.get("", operation_id="listTemplates")
def list_templates(
    access: Reads,
    paging: Annotated[OrderedPaging, Depends(sorted_by(repository.TEMPLATE_ORDERS))],
    text: Annotated[str, Query(max_length=200, description="A part of slug or name.")] = "",
) -> Page[Template]:
    with access.read() as session:
        rows = templates.list_page(session, msp_id=access.msp_id, span=paging.span, text=text)
        return paging.ordered(rows, _template)


@router.post("", status_code=201, operation_id="createTemplate")
def create_template(access: Changes, body: TemplateInput) -> Template:
    with access.change() as change:
        row = templates.create_template(
            change.session, actor=access.actor, msp_id=access.msp_id, slug=body.slug, name=body.name
        )
        change.located(row.slug)
        return change.answer(_template(row))


@router.get("/{slug}", operation_id="getTemplate")
def get_template(access: Reads, slug: str) -> Template:
    with access.read() as session:
        return access.shown(_template(_require(session, access, slug)))


@router.patch("/{slug}", operation_id="updateTemplate")
def update_template(access: Changes, slug: str, body: TemplateUpdate) -> Template:
    """Its name; the slug stays."""
    with access.change() as change:
        change.require_match(_template(_require(change.session, access, slug, lock=True)))
        row = templates.rename_template(
            change.session, actor=access.actor, msp_id=access.msp_id, slug=slug, name=body.name
        )
        return change.answer(_template(row))


@router.delete("/{slug}", status_code=204, operation_id="deleteTemplate")
def delete_template(access: Changes, slug: str) -> None:
    """One that no tenant follows."""
    with access.change() as change:
        change.require_match(_template(_require(change.session, access, slug, lock=True)))
        templates.delete_template(change.session, actor=access.actor, msp_id=access.msp_id, slug=slug)
        change.answer_nothing()


@router.get("/{slug}/versions", operation_id="listTemplateVersions")
def list_versions(
    access: Reads, slug: str, paging: Annotated[OrderedPaging, Depends(sorted_by(repository.VERSION_ORDERS))]
) -> Page[TemplateVersion]:
    """Newest first, unless `sort` says otherwise."""
    with access.read() as session:
        rows = templates.list_versions(session, template=_require(session, access, slug), span=paging.span)
        return paging.ordered(rows, lambda row: TemplateVersion.model_validate(_version(row)))


@router.post("/{slug}/versions", status_code=201, operation_id="createTemplateVersion")
def create_version(access: Changes, slug: str, body: TemplateVersionInput) -> TemplateVersionDetail:
    """As the newest one; no tenant has it until it is rolled out."""
    with access.change() as change:
        change.require_match(_template(_require(change.session, access, slug, lock=True)))
        row = templates.save_version(
            change.session,
            actor=access.actor,
            msp_id=access.msp_id,
            slug=slug,
            document=body.document,
            comment=body.comment,
        )
        state = _template(_require(change.session, access, slug))
        change.located(row.number)
        return change.answer(TemplateVersionDetail.model_validate(_version(row)), state=state)


@router.get("/{slug}/versions/{number}", operation_id="getTemplateVersion")
def get_version(access: Reads, slug: str, number: Annotated[int, _NUMBER]) -> TemplateVersionDetail:
    with access.read() as session:
        row = templates.require_version(session, template=_require(session, access, slug), number=number)
        return access.shown(TemplateVersionDetail.model_validate(_version(row)))


@router.get("/{slug}/tenants", operation_id="listTemplateTenants")
def list_followers(
    access: Compares,
    slug: str,
    paging: Annotated[OrderedPaging, Depends(sorted_by(repository.FOLLOWER_ORDERS))],
    drift: Annotated[bool, Query(description="With what each has otherwise than its version says.")] = False,
) -> Page[TemplateFollower]:
    """Those that follow the template and that the asker may see. With `drift` it takes, at each of them, the
    permissions to read the parts of its version."""
    with access.read() as session:
        rows = templates.list_followers(
            session,
            template=_require(session, access, slug),
            span=paging.span,
            with_drift=drift,
            only=_seen(access),
            held=access.held_at,
        )
        return paging.ordered(rows, _follower, entity=lambda row: (row.row, row.tenant))


@router.put("/{slug}/tenants/{follower}", operation_id="followTemplate")
def follow_template(access: RollsOut, slug: str, follower: str, body: TemplateFollowerInput) -> TemplateFollower:
    """Roll-outs reach the tenant from now on; nothing of it changes until then. It takes, at the tenant, each
    permission that the parts of the newest version take which are not overridden."""
    with access.change() as change:
        _require_match(change, access, slug, follower)
        row = templates.follow_template(
            change.session,
            actor=access.actor,
            msp_id=access.msp_id,
            slug=slug,
            tenant=follower,
            overrides=body.overrides,
            held=access.held_at,
        )
        return change.answer(_follower(row))


@router.delete("/{slug}/tenants/{follower}", status_code=204, operation_id="releaseFromTemplate")
def release_from_template(access: Changes, slug: str, follower: str) -> None:
    """The tenant keeps what it has."""
    with access.change() as change:
        _require_match(change, access, slug, follower)
        templates.release_follower(change.session, actor=access.actor, msp_id=access.msp_id, slug=slug, tenant=follower)
        change.answer_nothing()


@router.get("/{slug}/rollouts", operation_id="listRollouts")
def list_rollouts(
    access: Reads, slug: str, paging: Annotated[OrderedPaging, Depends(sorted_by(repository.ROLLOUT_ORDERS))]
) -> Page[Rollout]:
    """Newest first, unless `sort` says otherwise."""
    with access.read() as session:
        rows = repository.list_rollouts(session, _require(session, access, slug), span=paging.span)
        return paging.ordered(rows, lambda row: Rollout.model_validate(_rollout(row)))


@router.post("/{slug}/rollouts", status_code=201, operation_id="startRollout")
def start_rollout(access: RollsOut, slug: str, body: RolloutInput) -> RolloutDetail:
    """Begins within a second, and goes on by itself: a job of the MSP. It takes, at each tenant, each permission that
    the parts of the version take there."""
    stages = [rollouts.RolloutStage(stage.minutes, stage.tenants, stage.share) for stage in body.stages]
    with access.change() as change:
        _require(change.session, access, slug, lock=True)
        with body_references():
            row = rollouts.start_rollout(
                change.session,
                actor=access.actor,
                msp_id=access.msp_id,
                slug=slug,
                number=body.version,
                stages=stages,
                most_moved=body.most_moved,
                back_when_moved=body.back_when_moved,
                held=access.held_at,
                seal=signing_of(access.asked.request).sealer.seal,
            )
        change.located(row.id)
        return change.answer(_whole(access, change.session, row))


@router.get("/{slug}/rollouts/{rollout_id}", operation_id="getRollout")
def get_rollout(access: Reads, slug: str, rollout_id: UUID) -> RolloutDetail:
    with access.read() as session:
        return access.shown(_whole(access, session, _require_rollout(session, access, slug, rollout_id)))


@router.post("/{slug}/rollouts/{rollout_id}/stop", operation_id="pauseRollout")
def pause_rollout(access: Changes, slug: str, rollout_id: UUID) -> RolloutDetail:
    """Tenants that have the version keep it."""
    with access.change() as change:
        _require_rollout_match(change, access, slug, rollout_id)
        row = rollouts.stop_rollout(change.session, actor=access.actor, msp_id=access.msp_id, rollout_id=rollout_id)
        return change.answer(_whole(access, change.session, row))


@router.post("/{slug}/rollouts/{rollout_id}/go-on", operation_id="resumeRollout")
def resume_rollout(access: RollsOut, slug: str, rollout_id: UUID) -> RolloutDetail:
    """One that was stopped; its stage is watched anew from now. It takes the permissions that `startRollout` takes."""
    with access.change() as change:
        _require_rollout_match(change, access, slug, rollout_id)
        seal = signing_of(access.asked.request).sealer.seal
        row = rollouts.resume_rollout(
            change.session,
            actor=access.actor,
            msp_id=access.msp_id,
            rollout_id=rollout_id,
            held=access.held_at,
            seal=seal,
        )
        return change.answer(_whole(access, change.session, row))


@router.post("/{slug}/rollouts/{rollout_id}/roll-back", operation_id="rollBackRollout")
def roll_back_rollout(access: RollsOut, slug: str, rollout_id: UUID) -> RolloutDetail:
    """Give the tenants back what they had, of parts that nobody has changed since. It takes, at each tenant, each
    permission that these parts take there."""
    with access.change() as change:
        _require_rollout_match(change, access, slug, rollout_id)
        seal = signing_of(access.asked.request).sealer.seal
        row = rollouts.roll_back_rollout(
            change.session,
            actor=access.actor,
            msp_id=access.msp_id,
            rollout_id=rollout_id,
            held=access.held_at,
            seal=seal,
        )
        return change.answer(_whole(access, change.session, row))


def _require(session: Session, access: Access, slug: str, *, lock: bool = False) -> TemplateRow:
    return templates.require_template(session, msp_id=access.msp_id, slug=slug, lock=lock)


def _require_match(change: Change, access: Access, slug: str, tenant: str) -> None:
    found = templates.find_follower(change.session, msp_id=access.msp_id, slug=slug, tenant=tenant)
    change.require_match(None if found is None else _follower(found))


def _require_rollout_match(change: Change, access: Access, slug: str, rollout_id: UUID) -> None:
    row = _require_rollout(change.session, access, slug, rollout_id, lock=True)
    change.require_match(_whole(access, change.session, row))


def _require_rollout(
    session: Session, access: Access, slug: str, rollout_id: UUID, *, lock: bool = False
) -> RolloutRow:
    """Of this template."""
    template = _require(session, access, slug)
    row = rollouts.require_rollout(session, msp_id=access.msp_id, rollout_id=rollout_id, lock=lock)
    if row.template_id != template.id:
        raise rollouts.RolloutNotFound("There is no such roll-out.", place="rollout")
    return row


def _template(row: TemplateRow) -> Template:
    return Template(
        slug=row.slug, name=row.name, newest=row.newest, created_at=row.created_at, updated_at=row.updated_at
    )


def _version(row: VersionRow) -> dict[str, Any]:
    return {name: getattr(row, name) for name in ("number", "comment", "created_by", "created_at", "document")}


def _follower(row: templates.TemplateFollower) -> TemplateFollower:
    drift = None
    if row.drift is not None:
        drift = [TemplateDifference(part=each.part, wanted=each.wanted, found=each.found) for each in row.drift]
    return TemplateFollower(
        tenant=row.tenant.slug,
        version=row.row.version,
        applied_at=row.row.applied_at,
        overrides=row.row.overrides,
        drift=drift,
    )


def _rollout(row: RolloutRow) -> dict[str, Any]:
    return {name: getattr(row, name) for name in Rollout.model_fields} | {"detail": of_the_api(row.detail)}


def _seen(access: Access) -> frozenset[TenantId] | None:
    """None for all of the MSP's tenants."""
    return access.principal.tenants_of(access.msp_id)


def _whole(access: Access, session: Session, row: RolloutRow) -> RolloutDetail:
    only = _seen(access)
    tenants = [
        RolloutTenant(
            tenant=tenant.slug,
            state=cast(Any, each.state),
            **{name: getattr(each, name) for name in RolloutTenant.model_fields if name not in _TOLD},
            detail=of_the_api(each.detail),
        )
        for each, tenant in repository.list_rollout_tenants(session, row)
        if only is None or tenant.id in only
    ]
    return RolloutDetail(**_rollout(row), tenants=tenants)
