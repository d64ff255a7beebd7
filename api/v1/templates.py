"""Templates of an MSP: versions, tenants that follow, and roll-outs."""

from typing import Annotated, Any, cast
from uuid import UUID

from fastapi import Depends, Path, Query
from sqlalchemy.orm import Session

from api.access import Access, ChangesMsp, ReadsMsp
from api.application_state import get_signing
from api.change import Change
from api.routes import NounRouter
from api.v1.inputs import body_references
from api.v1.paging import OrderedPaging, Page, require_paging
from api.v1.template_models import (
    Rollout,
    RolloutDetail,
    RolloutInput,
    RolloutTenant,
    Template,
    TemplateDifference,
    TemplateFollower,
    TemplateFollowerInput,
    TemplateInput,
    TemplateUpdate,
    TemplateVersion,
    TemplateVersionDetail,
    TemplateVersionInput,
)
from nac.kit.ids import TenantId
from nac.kit.permissions import Effect, Permission
from nac.models import Rollout as RolloutRow
from nac.models import Template as TemplateRow
from nac.models import TemplateVersion as VersionRow
from nac.onboarding.templates import repository, rollouts
from nac.onboarding.templates import service as templates
from nac.onboarding.templates.parts import CHANGE_ALL_PARTS, READ_ALL_PARTS

router = NounRouter(
    prefix="/msps/{msp}/templates",
    tag="templates",
    description=(
        "Templates of an MSP: settings and objects for several tenants, which reach the tenants by roll-outs in stages."
    ),
)

Reads = Annotated[Access, Depends(ReadsMsp(Permission.TEMPLATE_READ))]
# Reading differences requires each tenant's own read permissions (nac.onboarding.templates.parts).
Compares = Annotated[Access, Depends(ReadsMsp(Permission.TEMPLATE_READ, Effect.DISCLOSURE, also=READ_ALL_PARTS))]
Changes = Annotated[Access, Depends(ChangesMsp(Permission.TEMPLATE_MANAGE, Effect.DRAFT))]
# Requires, at each tenant, the permissions for the parts of the template (nac.onboarding.templates.parts).
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
_COMPUTED_FIELDS = {"tenant", "state"}
_Slug = Annotated[str, Path(description="Slug of the template.")]
_Follower = Annotated[
    str, Path(examples=["hill-school"], description="Slug or id of the tenant that follows the template.")
]
_RolloutId = Annotated[UUID, Path(description="Id of the roll-out.")]


@router.get("", operation_id="listTemplates")
def list_templates(
    access: Reads,
    paging: Annotated[OrderedPaging, Depends(require_paging(repository.TEMPLATE_ORDERS))],
    text: Annotated[str, Query(max_length=200, description="Part of the slug or name of the templates to list.")] = "",
) -> Page[Template]:
    """List templates of the MSP."""
    with access.read() as session:
        rows = templates.list_page(session, msp_id=access.msp_id, span=paging.span, text=text)
        return paging.ordered(rows, _build_template)


@router.post("", status_code=201, operation_id="createTemplate")
def create_template(access: Changes, body: TemplateInput) -> Template:
    """Create a template without versions."""
    with access.change() as change:
        row = templates.create_template(
            change.session, actor=access.actor, msp_id=access.msp_id, slug=body.slug, name=body.name
        )
        change.located(row.slug)
        return change.answer(_build_template(row))


@router.get("/{slug}", operation_id="getTemplate")
def get_template(access: Reads, slug: _Slug) -> Template:
    """Get a template."""
    with access.read() as session:
        return access.shown(_build_template(_require_template(session, access, slug)))


@router.patch("/{slug}", operation_id="updateTemplate")
def update_template(access: Changes, slug: _Slug, body: TemplateUpdate) -> Template:
    """Rename a template.

    The slug of a template cannot change.
    """
    with access.change() as change:
        change.require_match(_build_template(_require_template(change.session, access, slug, lock=True)))
        row = templates.rename_template(
            change.session, actor=access.actor, msp_id=access.msp_id, slug=slug, name=body.name
        )
        return change.answer(_build_template(row))


@router.delete("/{slug}", status_code=204, operation_id="deleteTemplate")
def delete_template(access: Changes, slug: _Slug) -> None:
    """Delete a template that no tenant follows."""
    with access.change() as change:
        change.require_match(_build_template(_require_template(change.session, access, slug, lock=True)))
        templates.delete_template(change.session, actor=access.actor, msp_id=access.msp_id, slug=slug)
        change.set_empty_response()


@router.get("/{slug}/versions", operation_id="listTemplateVersions")
def list_versions(
    access: Reads, slug: _Slug, paging: Annotated[OrderedPaging, Depends(require_paging(repository.VERSION_ORDERS))]
) -> Page[TemplateVersion]:
    """List versions of a template, newest first by default."""
    with access.read() as session:
        rows = templates.list_versions(session, template=_require_template(session, access, slug), span=paging.span)
        return paging.ordered(rows, lambda row: TemplateVersion.model_validate(_describe_version(row)))


@router.post("/{slug}/versions", status_code=201, operation_id="createTemplateVersion")
def create_version(access: Changes, slug: _Slug, body: TemplateVersionInput) -> TemplateVersionDetail:
    """Create a version of a template. The new version becomes the newest version.

    A roll-out applies the version to tenants.
    """
    with access.change() as change:
        change.require_match(_build_template(_require_template(change.session, access, slug, lock=True)))
        row = templates.save_version(
            change.session,
            actor=access.actor,
            msp_id=access.msp_id,
            slug=slug,
            document=body.document,
            comment=body.comment,
        )
        state = _build_template(_require_template(change.session, access, slug))
        change.located(row.number)
        return change.answer(TemplateVersionDetail.model_validate(_describe_version(row)), state=state)


@router.get("/{slug}/versions/{number}", operation_id="getTemplateVersion")
def get_version(
    access: Reads,
    slug: _Slug,
    number: Annotated[int, Path(ge=1, le=2**31 - 1, description="Number of the template version.")],
) -> TemplateVersionDetail:
    """Get a version of a template, with the document."""
    with access.read() as session:
        row = templates.require_version(session, template=_require_template(session, access, slug), number=number)
        return access.shown(TemplateVersionDetail.model_validate(_describe_version(row)))


@router.get("/{slug}/tenants", operation_id="listTemplateTenants")
def list_followers(
    access: Compares,
    slug: _Slug,
    paging: Annotated[OrderedPaging, Depends(require_paging(repository.FOLLOWER_ORDERS))],
    drift: Annotated[
        bool,
        Query(
            description="Whether to include differences between each tenant and the tenant's version of the template."
        ),
    ] = False,
) -> Page[TemplateFollower]:
    """List tenants that follow the template and that you can see.

    To use `drift`, you need permission to read the parts of the applied version at each tenant.
    """
    with access.read() as session:
        rows = templates.list_followers(
            session,
            template=_require_template(session, access, slug),
            span=paging.span,
            with_drift=drift,
            only=_list_visible_tenants(access),
            held=access.permissions_at_tenant,
        )
        return paging.ordered(rows, _build_follower, entity=lambda row: (row.row, row.tenant))


@router.put("/{slug}/tenants/{follower}", operation_id="followTemplate")
def follow_template(
    access: RollsOut, slug: _Slug, follower: _Follower, body: TemplateFollowerInput
) -> TemplateFollower:
    """Add a tenant to the template.

    The next roll-out includes the tenant. Until then, nothing changes at the tenant. You need permission at the tenant
    to change each part of the newest version, except overridden parts.
    """
    with access.change() as change:
        _require_match(change, access, slug, follower)
        row = templates.follow_template(
            change.session,
            actor=access.actor,
            msp_id=access.msp_id,
            slug=slug,
            tenant=follower,
            overrides=body.overrides,
            held=access.permissions_at_tenant,
        )
        return change.answer(_build_follower(row))


@router.delete("/{slug}/tenants/{follower}", status_code=204, operation_id="releaseFromTemplate")
def release_from_template(access: Changes, slug: _Slug, follower: _Follower) -> None:
    """Remove a tenant from the template.

    The settings and objects of the tenant stay unchanged.
    """
    with access.change() as change:
        _require_match(change, access, slug, follower)
        templates.release_follower(change.session, actor=access.actor, msp_id=access.msp_id, slug=slug, tenant=follower)
        change.set_empty_response()


@router.get("/{slug}/rollouts", operation_id="listRollouts")
def list_rollouts(
    access: Reads, slug: _Slug, paging: Annotated[OrderedPaging, Depends(require_paging(repository.ROLLOUT_ORDERS))]
) -> Page[Rollout]:
    """List roll-outs of a template, newest first by default."""
    with access.read() as session:
        rows = repository.list_rollouts(session, _require_template(session, access, slug), span=paging.span)
        return paging.ordered(rows, lambda row: Rollout.model_validate(_describe_rollout(row)))


@router.post("/{slug}/rollouts", status_code=201, operation_id="startRollout")
def start_rollout(access: RollsOut, slug: _Slug, body: RolloutInput) -> RolloutDetail:
    """Start a roll-out of a template, which runs as a job of the MSP.

    The job begins within a second. You need permission at each tenant to change each part of the version.
    """
    stages = [rollouts.RolloutStage(stage.minutes, stage.tenants, stage.share) for stage in body.stages]
    with access.change() as change:
        _require_template(change.session, access, slug, lock=True)
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
                held=access.permissions_at_tenant,
                seal=get_signing(access.asked.request).sealer.seal,
            )
        change.located(row.id)
        return change.answer(_build_rollout_detail(access, change.session, row))


@router.get("/{slug}/rollouts/{rollout_id}", operation_id="getRollout")
def get_rollout(access: Reads, slug: _Slug, rollout_id: _RolloutId) -> RolloutDetail:
    """Get a roll-out of a template, with the progress at each tenant."""
    with access.read() as session:
        return access.shown(_build_rollout_detail(access, session, _require_rollout(session, access, slug, rollout_id)))


@router.post("/{slug}/rollouts/{rollout_id}/pause", operation_id="pauseRollout")
def pause_rollout(access: Changes, slug: _Slug, rollout_id: _RolloutId) -> RolloutDetail:
    """Pause a roll-out. Tenants that already have the new version keep this version."""
    with access.change() as change:
        _require_rollout_match(change, access, slug, rollout_id)
        row = rollouts.stop_rollout(change.session, actor=access.actor, msp_id=access.msp_id, rollout_id=rollout_id)
        return change.answer(_build_rollout_detail(access, change.session, row))


@router.post("/{slug}/rollouts/{rollout_id}/resume", operation_id="resumeRollout")
def resume_rollout(access: RollsOut, slug: _Slug, rollout_id: _RolloutId) -> RolloutDetail:
    """Resume a paused roll-out.

    Admit watches the current stage again for the full time. You need the same permissions as for `startRollout`.
    """
    with access.change() as change:
        _require_rollout_match(change, access, slug, rollout_id)
        seal = get_signing(access.asked.request).sealer.seal
        row = rollouts.resume_rollout(
            change.session,
            actor=access.actor,
            msp_id=access.msp_id,
            rollout_id=rollout_id,
            held=access.permissions_at_tenant,
            seal=seal,
        )
        return change.answer(_build_rollout_detail(access, change.session, row))


@router.post("/{slug}/rollouts/{rollout_id}/roll-back", operation_id="rollBackRollout")
def roll_back_rollout(access: RollsOut, slug: _Slug, rollout_id: _RolloutId) -> RolloutDetail:
    """Roll back a roll-out: restore the previous state of the tenants.

    Parts that have changed since the roll-out stay unchanged. You need permission at each tenant to change the restored
    parts.
    """
    with access.change() as change:
        _require_rollout_match(change, access, slug, rollout_id)
        seal = get_signing(access.asked.request).sealer.seal
        row = rollouts.roll_back_rollout(
            change.session,
            actor=access.actor,
            msp_id=access.msp_id,
            rollout_id=rollout_id,
            held=access.permissions_at_tenant,
            seal=seal,
        )
        return change.answer(_build_rollout_detail(access, change.session, row))


def _require_template(session: Session, access: Access, slug: str, *, lock: bool = False) -> TemplateRow:
    return templates.require_template(session, msp_id=access.msp_id, slug=slug, lock=lock)


def _require_match(change: Change, access: Access, slug: str, tenant: str) -> None:
    follower = templates.find_follower(change.session, msp_id=access.msp_id, slug=slug, tenant=tenant)
    change.require_match(None if follower is None else _build_follower(follower))


def _require_rollout_match(change: Change, access: Access, slug: str, rollout_id: UUID) -> None:
    row = _require_rollout(change.session, access, slug, rollout_id, lock=True)
    change.require_match(_build_rollout_detail(access, change.session, row))


def _require_rollout(
    session: Session, access: Access, slug: str, rollout_id: UUID, *, lock: bool = False
) -> RolloutRow:
    """Return a roll-out of this template. Raises RolloutNotFound."""
    template = _require_template(session, access, slug)
    row = rollouts.require_rollout(session, msp_id=access.msp_id, rollout_id=rollout_id, lock=lock)
    if row.template_id != template.id:
        raise rollouts.RolloutNotFound("The roll-out does not exist.", place="rollout")
    return row


def _build_template(row: TemplateRow) -> Template:
    return Template(
        slug=row.slug, name=row.name, newest=row.newest, created_at=row.created_at, updated_at=row.updated_at
    )


def _describe_version(row: VersionRow) -> dict[str, Any]:
    return {name: getattr(row, name) for name in ("number", "comment", "created_by", "created_at", "document")}


def _build_follower(row: templates.TemplateFollower) -> TemplateFollower:
    drift = None
    if row.drift is not None:
        drift = [TemplateDifference(part=each.part, expected=each.expected, actual=each.actual) for each in row.drift]
    return TemplateFollower(
        tenant=row.tenant.slug,
        version=row.row.version,
        applied_at=row.row.applied_at,
        overrides=row.row.overrides,
        drift=drift,
    )


def _describe_rollout(row: RolloutRow) -> dict[str, Any]:
    return {name: getattr(row, name) for name in Rollout.model_fields}


def _list_visible_tenants(access: Access) -> frozenset[TenantId] | None:
    """Return the tenants that the caller can see; None for all tenants of the MSP."""
    return access.principal.tenants_of(access.msp_id)


def _build_rollout_detail(access: Access, session: Session, row: RolloutRow) -> RolloutDetail:
    only = _list_visible_tenants(access)
    tenants = [
        RolloutTenant(
            tenant=tenant.slug,
            state=cast(Any, each.state),
            **{name: getattr(each, name) for name in RolloutTenant.model_fields if name not in _COMPUTED_FIELDS},
        )
        for each, tenant in repository.list_rollout_tenants(session, row)
        if only is None or tenant.id in only
    ]
    return RolloutDetail(**_describe_rollout(row), tenants=tenants)
