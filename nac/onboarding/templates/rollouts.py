"""Rolls out a template version in stages. Stops if the share of rejected devices at a tenant changes too much.

The roll-out is a job of the MSP (`nac.core.jobs`) that continues every few seconds, with a transaction per tenant.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

from sqlalchemy.orm import Session

from nac.core.access.grants import Owner
from nac.core.audit import service as audit
from nac.core.jobs import service as jobs
from nac.core.jobs.runner import JobContinuation, JobRun, MultiTransactionHandler
from nac.kit.clock import utc_now
from nac.kit.db import enter_tenant
from nac.kit.errors import AdmitError, Conflict, InvalidInput, NotFound, Unavailable
from nac.kit.ids import MspId
from nac.kit.permissions import Permission
from nac.kit.sealing import Seal
from nac.models import Rollout, RolloutTenant, Template, TemplateTenant, TemplateVersion, Tenant
from nac.onboarding.templates import repository
from nac.onboarding.templates.document import list_parts, read_template, site_names_by_slug
from nac.onboarding.templates.parts import (
    HeldPermissions,
    apply_parts,
    permissions_for,
    read_parts,
    require_permissions_at,
)
from nac.onboarding.templates.reject_rates import DeviceCounts, has_share_moved, is_conclusive
from nac.onboarding.templates.service import exclude_overrides, require_template, require_version
from nac.tenancy.tenants import service as tenants

JOB_KIND = "templates.roll-out"
MAX_STAGES = 20
MIN_MINUTES, MAX_MINUTES = 1, 7 * 24 * 60
_CHECK_INTERVAL = timedelta(seconds=10)
# Maximum number of tenants that the job updates before other jobs can run.
_TENANTS_PER_TURN = 20
# Maximum number of tenants that a message names.
_MAX_NAMED = 5


@dataclass(frozen=True, slots=True)
class RolloutStage:
    """A stage updates `tenants` (slugs), or tenants until `share` percent are updated, and watches for `minutes`."""

    minutes: int
    tenants: Sequence[str] | None = None
    share: int | None = None


class RolloutNotFound(NotFound):
    """The roll-out does not exist."""


def start_rollout(
    session: Session,
    *,
    actor: str,
    msp_id: MspId,
    slug: str,
    number: int,
    stages: Sequence[RolloutStage],
    most_moved: float,
    back_when_moved: bool = False,
    held: HeldPermissions,
    seal: Seal,
) -> Rollout:
    """Start a roll-out. The last stage contains all remaining tenants.

    If the share of rejected devices at a tenant changes by more than `most_moved`, the roll-out stops. With
    `back_when_moved`, Admit then also rolls back. Raises Conflict if a roll-out is running or all tenants have the
    version. Raises PermissionMissing if the caller cannot change the parts at one of the tenants.
    """
    template = require_template(session, msp_id=msp_id, slug=slug, lock=True)
    version = require_version(session, template=template, number=number)
    if not 0 < most_moved <= 1:
        raise InvalidInput(
            "The share must be between 0 and 1.", place="most_moved", remedy="Use 0.05 for 5 of 100 devices."
        )
    followers = repository.list_followers(session, template)
    behind = {tenant.slug: row for row, tenant in followers if row.version != number}
    if repository.is_rollout_open(session, template):
        raise Conflict(
            "A roll-out of this template is already in progress.",
            place="rollout",
            remedy="Wait until the roll-out ends, or stop the roll-out.",
        )
    if not behind:
        raise Conflict(f"All tenants that follow {slug!r} already have version {number}.", place="version")
    planned = _plan_stages(template, behind, stages)
    parts = _list_parts_at(version, [(row, tenant) for row, tenant in followers if tenant.slug in planned], held)
    rollout = Rollout(
        msp_id=msp_id,
        template_id=template.id,
        version=number,
        stages=[stage.minutes for stage in stages],
        most_moved=most_moved,
        back_when_moved=back_when_moved,
        requested_by=actor,
    )
    session.add(rollout)
    session.flush()
    session.add_all(
        RolloutTenant(rollout_id=rollout.id, tenant_id=behind[tenant].tenant_id, msp_id=msp_id, stage=stage)
        for tenant, stage in planned.items()
    )
    session.flush()
    session.refresh(rollout)
    _audit(session, actor, template, "roll-out", {"version": number, "tenants": len(planned), "stages": len(stages)})
    _start_job(session, actor, rollout, template, parts, seal)
    return rollout


def _list_parts_at(
    version: TemplateVersion, followers: Iterable[tuple[TemplateTenant, Tenant]], held: HeldPermissions
) -> set[str]:
    """Return the parts that the roll-out changes at one or more of the tenants. Raises PermissionMissing."""
    wanted = list_parts(read_template(version.document))
    parts: set[str] = set()
    for row, tenant in followers:
        own = exclude_overrides(wanted, row.overrides)
        require_permissions_at(held, tenant, own)
        parts |= own.keys()
    return parts


def _start_job(
    session: Session, actor: str, rollout: Rollout, template: Template, parts: Iterable[str], seal: Seal
) -> None:
    rollout.job_id = jobs.start_job(
        session,
        actor=actor,
        owner=Owner(rollout.msp_id),
        kind=JOB_KIND,
        title=f"Template {template.slug}, version {rollout.version}",
        input={"rollout": str(rollout.id)},
        # Users who retry the job need the permissions to start it.
        needs={Permission.TEMPLATE_MANAGE, *permissions_for(parts)},
        seal=seal,
    ).id
    session.flush()


def _plan_stages(
    template: Template, behind: Mapping[str, TemplateTenant], stages: Sequence[RolloutStage]
) -> dict[str, int]:
    """Return the stage of each tenant by slug. For the same template, a share always selects the same tenants."""
    if not 1 <= len(stages) <= MAX_STAGES:
        raise InvalidInput(f"A roll-out must have 1 to {MAX_STAGES} stages.", place="stages")
    order = sorted(behind, key=lambda slug: hashlib.sha256(f"{template.id} {slug}".encode()).digest())
    planned: dict[str, int] = {}
    for number, stage in enumerate(stages):
        place = f"stages[{number}]"
        if not MIN_MINUTES <= stage.minutes <= MAX_MINUTES:
            raise InvalidInput(f"Minutes must be between {MIN_MINUTES} and {MAX_MINUTES}.", place=f"{place}.minutes")
        if (stage.tenants is None) == (stage.share is None):
            raise InvalidInput("A stage needs either tenants or a share.", place=place)
        if stage.tenants is not None:
            if unknown := sorted(set(stage.tenants) - behind.keys()):
                raise InvalidInput(
                    f"Tenant {unknown[0]!r} does not follow the template or already has this version.",
                    place=f"{place}.tenants",
                )
            taken = [slug for slug in stage.tenants if slug not in planned]
        else:
            share = stage.share or 0
            if not 0 < share <= 100:
                raise InvalidInput("The share must be between 1 and 100.", place=f"{place}.share")
            # Round the number of tenants up, so that a small share is at least one tenant.
            wanted = max(1, -(-len(order) * share // 100)) - len(planned)
            taken = [slug for slug in order if slug not in planned][: max(0, wanted)]
        planned |= dict.fromkeys(taken, number)
    return planned | {slug: len(stages) - 1 for slug in order if slug not in planned}


def stop_rollout(session: Session, *, actor: str, msp_id: MspId, rollout_id: UUID) -> Rollout:
    """Stop a roll-out. Updated tenants keep the new version. Raises Conflict if the roll-out is not running."""
    rollout = require_rollout(session, msp_id=msp_id, rollout_id=rollout_id, lock=True)
    if rollout.state != "running":
        raise Conflict(f"The roll-out is {rollout.state}.", place="rollout")
    _end_rollout(rollout, "stopped", f"Stopped by {actor}.")
    session.flush()
    _audit_rollout(session, actor, rollout, "pause-rollout")
    return rollout


def stop_all_rollouts(session: Session, *, actor: str, msp_id: MspId) -> int:
    """Stop all roll-outs of the MSP, including those that roll back. Returns the number of stopped roll-outs."""
    found = repository.lock_running(session, msp_id)
    for rollout in found:
        _end_rollout(rollout, "stopped", f"Stopped by {actor}.")
        _audit_rollout(session, actor, rollout, "pause-rollout")
    return len(found)


def resume_rollout(
    session: Session, *, actor: str, msp_id: MspId, rollout_id: UUID, held: HeldPermissions, seal: Seal
) -> Rollout:
    """Resume a stopped roll-out, and restart its current stage. Raises Conflict and PermissionMissing."""
    rollout, template = _require_stopped(session, msp_id, rollout_id)
    rollout.state, rollout.detail, rollout.ended_at = "running", "", None
    rollout.stage_applied_at = None
    now = utc_now()
    rows = repository.list_rollout_tenants(session, rollout)
    left = {row.tenant_id for row, _ in rows if row.state != "applied"}
    version = require_version(session, template=template, number=rollout.version)
    followers = repository.list_followers(session, template)
    parts = _list_parts_at(version, [(row, tenant) for row, tenant in followers if row.tenant_id in left], held)
    for row, _ in rows:
        if row.state in ("failed", "left-out", "rolled-back"):
            row.state, row.detail = "waiting", ""
        elif row.state == "applied":
            # The user who resumes accepts the new share of rejected devices. It must not stop the roll-out again.
            row.applied_at, row.detail = now, ""
    session.flush()
    _audit_rollout(session, actor, rollout, "resume-rollout")
    _start_job(session, actor, rollout, template, parts, seal)
    return rollout


def roll_back_rollout(
    session: Session, *, actor: str, msp_id: MspId, rollout_id: UUID, held: HeldPermissions, seal: Seal
) -> Rollout:
    """Restore the parts that the roll-out changed at its tenants, except parts that users changed later.

    Raises Conflict while the roll-out runs, and PermissionMissing.
    """
    rollout = require_rollout(session, msp_id=msp_id, rollout_id=rollout_id, lock=True)
    if rollout.state not in ("stopped", "done"):
        raise Conflict(f"The roll-out is {rollout.state}.", place="rollout", remedy="Stop the roll-out first.")
    template = session.get_one(Template, rollout.template_id, with_for_update=True)
    _require_newest(session, template, rollout)
    rollout.state, rollout.ended_at = "rolling-back", None
    parts: set[str] = set()
    for row, tenant in repository.list_rollout_tenants(session, rollout):
        if row.state == "applied":
            require_permissions_at(held, tenant, row.before or {})
            parts.update(row.before or {})
            row.detail = ""
    session.flush()
    _audit_rollout(session, actor, rollout, "roll-back")
    _start_job(session, actor, rollout, template, parts, seal)
    return rollout


def _require_stopped(session: Session, msp_id: MspId, rollout_id: UUID) -> tuple[Rollout, Template]:
    rollout = require_rollout(session, msp_id=msp_id, rollout_id=rollout_id, lock=True)
    if rollout.state != "stopped":
        raise Conflict(f"The roll-out is {rollout.state}.", place="rollout")
    template = session.get_one(Template, rollout.template_id, with_for_update=True)
    _require_newest(session, template, rollout)
    return rollout, template


def _require_newest(session: Session, template: Template, rollout: Rollout) -> None:
    newest = repository.list_rollouts(session, template, span=repository.ROLLOUT_ORDERS.first(1))[0]
    if newest.id != rollout.id:
        raise Conflict("A later roll-out of this template exists.", place="rollout", remedy=f"See {newest.id}.")


def require_rollout(session: Session, *, msp_id: MspId, rollout_id: UUID, lock: bool = False) -> Rollout:
    rollout = repository.get_rollout(session, msp_id, rollout_id, lock=lock)
    if rollout is None:
        raise RolloutNotFound("The roll-out does not exist.", place="rollout")
    return rollout


def _end_rollout(rollout: Rollout, state: str, detail: str) -> None:
    rollout.state, rollout.detail, rollout.ended_at = state, detail, utc_now()


def _audit(session: Session, actor: str, template: Template, verb: str, after: Mapping[str, Any]) -> None:
    audit.append(
        session, actor=actor, action=f"template.{verb}", target=template.slug, msp_id=template.msp_id, after=after
    )


def _audit_rollout(session: Session, actor: str, rollout: Rollout, verb: str) -> None:
    template = session.get_one(Template, rollout.template_id)
    _audit(session, actor, template, verb, {"rollout": str(rollout.id), "state": rollout.state})


def advance_rollout(work: JobRun) -> Mapping[str, Any] | JobContinuation:
    """Run one step of the job: update or roll back the tenants that are due now."""
    rollout_id, msp_id = UUID(work.input["rollout"]), work.owner.msp_id
    assert msp_id is not None
    with work.transaction() as session:
        rollout = require_rollout(session, msp_id=msp_id, rollout_id=rollout_id)
        rows = repository.list_rollout_tenants(session, rollout)
    back = rollout.state == "rolling-back"
    if not _is_run_by_job(rollout, work):
        return _build_result(rollout, rows)
    todo = [
        (row, tenant)
        for row, tenant in rows
        if (_can_roll_back(row) if back else row.state == "waiting" and row.stage <= rollout.stage)
    ]
    for number, (row, tenant) in enumerate(todo[:_TENANTS_PER_TURN]):
        if not (_roll_back_tenant if back else _apply_to_tenant)(work, row, tenant):
            return JobContinuation()
        work.report(number + 1, len(todo))
    if len(todo) > _TENANTS_PER_TURN:
        return JobContinuation()
    return JobContinuation(_finish_stage(work, rollout.id, msp_id))


def _is_run_by_job(rollout: Rollout, work: JobRun) -> bool:
    """Return whether this job still runs the roll-out: no user stopped it, and no other job resumed it."""
    return rollout.state in ("running", "rolling-back") and rollout.job_id == work.id


def _can_roll_back(row: RolloutTenant) -> bool:
    """Return whether the tenant must still be rolled back. After a failed attempt, `detail` has the reason."""
    return row.state == "applied" and not row.detail


def _lock_both(session: Session, work: JobRun, row: RolloutTenant, state: str) -> tuple[Rollout, RolloutTenant] | None:
    """Return and lock the roll-out and the tenant's row; None if another process changed the roll-out or the row."""
    rollout = repository.get_rollout(session, row.msp_id, row.rollout_id, lock=True)
    fresh = session.get(RolloutTenant, (row.rollout_id, row.tenant_id), with_for_update=True, populate_existing=True)
    if rollout is None or fresh is None or fresh.state != state or not _is_run_by_job(rollout, work):
        return None
    return rollout, fresh


def _leave_out_reason(follower: TemplateTenant | None, rollout: Rollout, tenant: Tenant) -> str:
    """Return the reason why the roll-out must omit the tenant; "" if there is no reason."""
    if follower is None or follower.template_id != rollout.template_id:
        return "The tenant no longer follows the template."
    return "The tenant is being deleted." if tenant.status == "deleting" else ""


def _apply_to_tenant(work: JobRun, row: RolloutTenant, tenant: Tenant) -> bool:
    """Update a tenant to the new version. Returns whether the roll-out continues."""
    with work.transaction() as session:
        locked = _lock_both(session, work, row, "waiting")
        if locked is None:
            return False
        rollout, fresh = locked
        template = session.get_one(Template, rollout.template_id)
        version = require_version(session, template=template, number=rollout.version)
        follower = repository.lock_follower(session, rollout.msp_id, row.tenant_id)
        enter_tenant(session, row.tenant_id)
        if why := _leave_out_reason(follower, rollout, tenants.require_tenant(session, tenant_id=row.tenant_id)):
            fresh.state, fresh.detail = "left-out", why
            return True
        assert follower is not None
        parsed = read_template(version.document)
        now = utc_now()
        watched = timedelta(minutes=rollout.stages[fresh.stage])
        counts = repository.count_devices(session, row.tenant_id, now - watched, now)
        fresh.rejected_before, fresh.devices_before = counts
        try:
            with session.begin_nested():
                before = apply_parts(
                    session,
                    actor=work.actor,
                    tenant_id=row.tenant_id,
                    wanted=exclude_overrides(list_parts(parsed), follower.overrides),
                    names=site_names_by_slug(parsed),
                )
        except Unavailable:
            raise
        except AdmitError as error:
            fresh.state, fresh.detail = "failed", str(error)[:2000]
            _end_rollout(rollout, "stopped", f"Cannot update tenant {tenant.slug!r}: {error}"[:2000])
            return False
        fresh.state, fresh.detail, fresh.applied_at = "applied", "", now
        fresh.before, fresh.before_version = before, follower.version
        follower.version, follower.applied_at = rollout.version, now
        # Save the progress after each tenant, so that a crash of the worker counts only for the current tenant.
        work.save_place(session, work.place)
    return True


def _roll_back_tenant(work: JobRun, row: RolloutTenant, tenant: Tenant) -> bool:
    """Roll back a tenant. A failure is recorded, and does not affect other tenants. Returns whether to continue."""
    with work.transaction() as session:
        locked = _lock_both(session, work, row, "applied")
        if locked is None:
            return False
        rollout, fresh = locked
        follower = repository.lock_follower(session, rollout.msp_id, row.tenant_id)
        enter_tenant(session, row.tenant_id)
        if why := _leave_out_reason(follower, rollout, tenants.require_tenant(session, tenant_id=row.tenant_id)):
            fresh.state, fresh.detail = "left-out", why
            return True
        assert follower is not None
        try:
            with session.begin_nested():
                unchanged = _unchanged_parts(session, rollout, fresh)
                apply_parts(session, actor=work.actor, tenant_id=row.tenant_id, wanted=unchanged, names={})
        except Unavailable:
            raise
        except AdmitError as error:
            fresh.detail = f"Cannot roll back tenant {tenant.slug!r}: {error}"[:2000]
            return True
        fresh.state, fresh.detail = "rolled-back", ""
        follower.version, follower.applied_at = fresh.before_version, utc_now()
        work.save_place(session, work.place)
    return True


def _unchanged_parts(session: Session, rollout: Rollout, row: RolloutTenant) -> dict[str, Any]:
    """Return the earlier values of the parts that the roll-out changed and that nobody changed later."""
    template = session.get_one(Template, rollout.template_id)
    version = require_version(session, template=template, number=rollout.version)
    made = list_parts(read_template(version.document))
    before = row.before or {}
    has = read_parts(session, row.tenant_id, before)
    return {name: value for name, value in before.items() if has[name] == made.get(name)}


def _finish_stage(work: JobRun, rollout_id: UUID, msp_id: MspId) -> timedelta:
    """Check the current stage, and begin the next stage when it is due. Returns the delay until the next check."""
    with work.transaction() as session:
        rollout = require_rollout(session, msp_id=msp_id, rollout_id=rollout_id, lock=True)
        if not _is_run_by_job(rollout, work):
            return timedelta()
        rows = repository.list_rollout_tenants(session, rollout)
        if rollout.state == "rolling-back":
            left = next((row.detail for row, _ in rows if row.state == "applied"), "")
            _end_rollout(rollout, "stopped" if left else "rolled-back", left or rollout.detail)
            return timedelta()
        now = utc_now()
        rollout.stage_applied_at = rollout.stage_applied_at or now
        for row, tenant in rows:
            if row.state == "applied" and _has_tenant_moved(session, rollout, row):
                _stop_for_moved_tenant(session, rollout, row, tenant)
                return timedelta()
        if now < rollout.stage_applied_at + timedelta(minutes=rollout.stages[rollout.stage]):
            return _CHECK_INTERVAL
        if rollout.stage + 1 == len(rollout.stages):
            _end_rollout(rollout, "done", _describe_inconclusive_tenants(rollout, rows))
        else:
            rollout.stage, rollout.stage_applied_at = rollout.stage + 1, None
        return timedelta()


def _describe_inconclusive_tenants(rollout: Rollout, rows: Sequence[Any]) -> str:
    """Return a note about tenants with too few devices to detect a change; "" if all have enough."""
    few = [
        tenant.slug
        for row, tenant in rows
        if row.state == "applied"
        and not is_conclusive(
            DeviceCounts(row.rejected_before or 0, row.devices_before or 0),
            DeviceCounts(row.rejected_since or 0, row.devices_since or 0),
            most=rollout.most_moved,
        )
    ]
    if not few:
        return ""
    names = ", ".join(few[:_MAX_NAMED]) + (f" and {len(few) - _MAX_NAMED} others" if len(few) > _MAX_NAMED else "")
    return f"Too few devices were active to detect a change at {names}. Check these tenants manually."


def _stop_for_moved_tenant(session: Session, rollout: Rollout, row: RolloutTenant, tenant: Tenant) -> None:
    detail = (
        f"At tenant {tenant.slug!r}, {row.rejected_since} of {row.devices_since} devices were rejected"
        f" after the update, compared with {row.rejected_before} of {row.devices_before} before."
    )
    if rollout.back_when_moved:
        rollout.state, rollout.detail = "rolling-back", detail
    else:
        _end_rollout(rollout, "stopped", detail)
    audit.append(
        session,
        actor="system:templates",
        action="template.roll-back" if rollout.back_when_moved else "template.pause-rollout",
        target=tenant.slug,
        msp_id=rollout.msp_id,
        after={"rollout": str(rollout.id), "detail": detail},
    )


def _has_tenant_moved(session: Session, rollout: Rollout, row: RolloutTenant) -> bool:
    """Return whether the share of rejected devices changed too much while Admit watched the tenant's stage."""
    assert row.applied_at is not None
    end = min(utc_now(), row.applied_at + timedelta(minutes=rollout.stages[row.stage]))
    enter_tenant(session, row.tenant_id)
    since = repository.count_devices(session, row.tenant_id, row.applied_at, end)
    row.rejected_since, row.devices_since = since
    before = DeviceCounts(row.rejected_before or 0, row.devices_before or 0)
    return has_share_moved(before, since, most=rollout.most_moved)


def _build_result(rollout: Rollout, rows: Sequence[Any]) -> dict[str, Any]:
    states = [row.state for row, _ in rows]
    return {"state": rollout.state, "detail": rollout.detail} | {state: states.count(state) for state in set(states)}


ROLLOUT_HANDLER = MultiTransactionHandler(advance_rollout)
