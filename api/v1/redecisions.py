"""Deciding live sessions anew after a change, and having NASes do what differs."""

from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query
from pydantic import BaseModel, Field
from sqlalchemy.orm import Session

from api.access import Access, ChangesTenant, ReadsTenant
from api.change import Change, Observed
from api.v1.inputs import Input, Omittable, Slug, body_references
from api.v1.keys import RowId, RowNumber
from api.v1.paging import OrderedPaging, Page, sorted_by
from nac.accounts.effects import Effect
from nac.accounts.permissions import Permission
from nac.models import Redecision as RedecisionRow
from nac.models.redecision import RedecisionMode, RedecisionState
from nac.policies import service as policies
from nac.redecisions import service as redecisions
from nac.redecisions.repository import ORDERS
from nac.redecisions.settings import TenantRedecisionSettings

router = APIRouter(prefix="/tenants/{tenant}/redecisions", tags=["re-decisions"])

Reads = Annotated[Access, Depends(ReadsTenant(Permission.REDECISION_READ))]
Changes = Annotated[Access, Depends(ChangesTenant(Permission.REDECISION_MANAGE, Effect.SESSIONS))]


class Redecision(Observed):
    id: int = Field(description="Id; it stays.")
    began_at: datetime = Field(description="When it began.")
    ended_at: datetime | None = Field(description="When it ended; null while it has not.")
    cause: str = Field(description="What changed, and who asked.")
    asked_by: str = Field(description="Who asked for it, such as token:setup.")
    scope: str = Field(description="Which sessions are looked at: all or some.")
    state: RedecisionState = Field(
        description="deciding, waiting (for approval), sending (requests to NASes), done, stopped, or "
        "superseded by a later one."
    )
    waits_for: str | None = Field(description="preview or ceiling, where it waits for approval.")
    sessions: int = Field(description="How many sessions differ.")
    unchanged: int = Field(description="How many stay as they are.")
    disconnects: int = Field(description="How many live sessions are asked to end.")
    reauthentications: int = Field(description="How many sessions are asked to authenticate again.")
    may_disconnect: int = Field(
        description="How many NASes may disconnect the device on the way to what they are asked."
    )
    cannot_be_redecided: dict[str, int] = Field(description="How many sessions cannot be decided again, by why.")
    detail: str = Field(description='What is so, in a sentence for people. "" where there is nothing to say.')

    def observed(self) -> set[str]:
        """While it is under way the worker brings it on; what it found, and how far that was sent, goes on besides."""
        beside = set(type(self).model_fields) - set(Redecision.model_fields)
        return beside | _BROUGHT if self.state in ("deciding", "sending") else beside


_BROUGHT = {
    *("state", "sessions", "unchanged", "disconnects", "reauthentications"),
    *("may_disconnect", "cannot_be_redecided", "detail"),
}


class ActionCounts(BaseModel):
    disconnect: int = Field(description="How many sessions would be disconnected.")
    reauthenticate: int = Field(description="How many sessions would authenticate again.")


class NasActionCounts(ActionCounts):
    nas: str = Field(description="Name of the NAS or, where it is not registered, what it says of itself.")


class SiteActionCounts(ActionCounts):
    site: str = Field(description='Slug of the site; null or "" where it belongs to none, or to one that is gone.')


class RedecisionOutcome(BaseModel):
    verdict: str = Field(
        description='What the policy says; in monitor mode not what was done. "" where no policy was asked.'
    )
    rule: str = Field(description='Name of the rule; "" for the fallback.')
    vlan: str = Field(description='VLAN that the device gets; "" where none is said.')
    text: str = Field(description="It, in words.")
    reason: str | None = Field(None, description="Why: a code.")


class RedecisionExample(BaseModel):
    session: int = Field(description="Id of the session.")
    mac: str = Field(description="MAC address of the device, such as 00:00:5e:00:53:01.")
    identity: str = Field(description="What the device or user called itself.")
    nas: str = Field(description="Name of the NAS or, where it is not registered, what it says of itself.")


class RedecisionDifference(BaseModel):
    action: str = Field(description="What was done, as noun.verb.")
    sessions: int = Field(description="How many sessions.")
    before: RedecisionOutcome = Field(description="The state before the change.")
    after: RedecisionOutcome = Field(description="The state after the change.")
    examples: list[RedecisionExample] = Field(description="Some of them.")


class RedecisionSummary(BaseModel):
    """The largest first."""

    nases: list[NasActionCounts] = Field(description="How many sessions, by NAS.")
    sites: list[SiteActionCounts] = Field(description="Slugs of sites.")
    changes: list[RedecisionDifference] = Field(description="What becomes otherwise, by kind.")


class RedecisionDetail(Redecision, RedecisionSummary):
    items: dict[str, int] = Field(description="Sessions that differ, by state: found, asked, settled, withdrawn.")
    requests: dict[str, int] = Field(description="Requests to NASes by state: they are listed under coa-requests.")


class CancelledRedecision(Redecision):
    withdrawn: int = Field(description="Requests that were withdrawn.")


class RedecisionPreviewInput(Input):
    """As if this were in force. Of neither `draft` nor `version`: the newest version of the policy."""

    policy: Slug | None = Field(None, description="Slug; null: the tenant's only one.")
    version: RowNumber | None = Field(None, description="Number of the version; null: the newest.")
    draft: dict[str, Any] | None = Field(None, description="A document, whatever is stored; null: what is stored.")
    in_force: bool = Field(False, description="As things are now: what a start would find.")


class RedecisionPreview(RedecisionSummary):
    sessions: int = Field(description="How many sessions.")
    unchanged: int = Field(description="How many stay as they are.")
    asked_already: int = Field(
        description="Sessions whose NASes are being asked, or have just done what they were asked."
    )
    disconnects: int = Field(description="How many live sessions are asked to end.")
    reauthentications: int = Field(description="How many sessions are asked to authenticate again.")
    may_disconnect: int = Field(
        description="How many NASes may disconnect the device on the way to what they are asked."
    )
    cannot_be_redecided: dict[str, int] = Field(description="How many sessions cannot be decided again, by why.")
    over_ceiling: bool = Field(description="Whether it would wait for approval.")
    mode: RedecisionMode = Field(
        description="What becomes of changes: nothing (off), a preview, or requests to NASes (send)."
    )


class RedecisionSettings(BaseModel):
    mode: RedecisionMode = Field(
        description="What becomes of changes: nothing (off), a preview, or requests to NASes (send)."
    )
    per_second: int = Field(description="Requests to the tenant's NASes in a second, at most.")
    ceiling_percent: int = Field(
        description="Where more of all live sessions than these per cent would be disconnected, it waits for approval."
    )
    ceiling_sessions: int = Field(
        description="Where more live sessions than that would be disconnected, it waits for approval."
    )
    every_minutes: int = Field(
        description="All sessions are looked at so often without a change: 5 to 1440, or 0 for never."
    )


class RedecisionSettingsUpdate(Input):
    mode: Omittable[RedecisionMode] = Field(
        None, description="What becomes of changes: nothing (off), a preview, or requests to NASes (send)."
    )
    per_second: Omittable[int] = Field(
        None, ge=1, le=500, description="Requests to the tenant's NASes in a second, at most."
    )
    ceiling_percent: Omittable[int] = Field(
        None,
        ge=0,
        le=100,
        description="Where more of all live sessions than these per cent would be disconnected, it waits for approval.",
    )
    ceiling_sessions: Omittable[int] = Field(
        None,
        ge=0,
        le=10_000_000,
        description="Where more live sessions than that would be disconnected, it waits for approval.",
    )
    every_minutes: Omittable[int] = Field(
        None,
        ge=0,
        le=1_440,
        description="All sessions are looked at so often without a change: 5 to 1440, or 0 for never.",
    )


@router.get("", operation_id="listRedecisions")
def list_redecisions(
    access: Reads,
    paging: Annotated[OrderedPaging, Depends(sorted_by(ORDERS))],
    state: Annotated[list[RedecisionState] | None, Query()] = None,
) -> Page[Redecision]:
    """Those that are under way and those that are over."""
    with access.read() as session:
        rows = redecisions.list_redecisions(session, tenant_id=access.tenant_id, span=paging.span, states=state or ())
        return paging.ordered(rows, lambda row: Redecision(**_row(row)))


@router.post("", status_code=202, operation_id="startRedecision")
def start_redecision(access: Changes) -> Redecision:
    """Look at every live session now, and send what differs; more disconnects than the ceiling wait for approval."""
    with access.change() as change:
        run = redecisions.start_redecision(change.session, actor=access.actor, tenant_id=access.tenant_id)
        change.session.refresh(run)
        change.located(run.id)
        return change.answer(Redecision(**_row(run)))


@router.post("/preview", operation_id="previewRedecision")
def preview_redecision(access: Reads, body: RedecisionPreviewInput) -> RedecisionPreview:
    """What would be sent if a policy were in force; nothing is sent or stored."""
    with access.read() as session, body_references(slug="policy"):
        drafts: dict[Any, object] = {}
        if not body.in_force:
            policy = policies.find_policy(session, tenant_id=access.tenant_id, slug=body.policy or "")
            drafts[policy.id] = body.draft if body.draft is not None else _document(session, access, policy.slug, body)
        found = redecisions.preview_redecision(session, tenant_id=access.tenant_id, drafts=drafts)
    tallies = found.tallies
    return RedecisionPreview(
        **tallies.row(),
        sessions=tallies.sessions,
        unchanged=tallies.unchanged,
        asked_already=tallies.asked_already,
        may_disconnect=tallies.may_disconnect,
        cannot_be_redecided=dict(tallies.undecidable),
        over_ceiling=found.over_ceiling,
        mode=found.settings.mode,
    )


@router.get("/settings", operation_id="getRedecisionSettings")
def get_settings(access: Reads) -> RedecisionSettings:
    with access.read() as session:
        return access.shown(_settings(redecisions.get_settings(session, tenant_id=access.tenant_id)))


@router.patch("/settings", operation_id="updateRedecisionSettings")
def update_settings(access: Changes, body: RedecisionSettingsUpdate) -> RedecisionSettings:
    """What is left out stays as it is."""
    given = body.model_dump(exclude_unset=True)
    with access.change() as change:
        now = redecisions.get_settings(change.session, tenant_id=access.tenant_id, lock=True)
        change.require_match(_settings(now))
        made = redecisions.update_settings(change.session, actor=access.actor, tenant_id=access.tenant_id, **given)
        return change.answer(_settings(made))


@router.get("/{redecision}", operation_id="getRedecision")
def get_redecision(access: Reads, redecision: RowId) -> RedecisionDetail:
    """What it found, and how far it was sent."""
    with access.read() as session:
        run = redecisions.require_redecision(session, tenant_id=access.tenant_id, number=redecision)
        found = redecisions.redecision_row(session, run)
        whole = {name: found.get(name, {}) for name in ("nases", "sites", "changes", "items", "requests")}
        return access.shown(RedecisionDetail(**_row(run), **whole))


@router.post("/{redecision}/approve", status_code=202, operation_id="approveRedecision")
def approve_redecision(access: Changes, redecision: RowId) -> Redecision:
    """Send what it has found, which waits for it: for a preview, or because it disconnects many."""
    with access.change() as change:
        _require_match(change, access, redecision)
        run = redecisions.approve_redecision(
            change.session, actor=access.actor, tenant_id=access.tenant_id, number=redecision
        )
        return change.answer(Redecision(**_row(run)))


@router.post("/{redecision}/stop", operation_id="cancelRedecision")
def stop_redecision(access: Changes, redecision: RowId) -> CancelledRedecision:
    """Send no more of it, and withdraw what is queued; what NASes have done stays done."""
    with access.change() as change:
        run = _require_match(change, access, redecision)
        withdrawn = redecisions.stop_redecision(
            change.session, actor=access.actor, tenant_id=access.tenant_id, number=redecision
        )
        return change.answer(CancelledRedecision(**_row(run), withdrawn=withdrawn), state=Redecision(**_row(run)))


def _require_match(change: Change, access: Access, number: int) -> RedecisionRow:
    run = redecisions.require_redecision(change.session, tenant_id=access.tenant_id, number=number, lock=True)
    change.require_match(Redecision(**_row(run)))
    return run


def _document(session: Session, access: Access, slug: str, body: RedecisionPreviewInput) -> object:
    return policies.require_newest_version(session, tenant_id=access.tenant_id, slug=slug, number=body.version).document


def _settings(row: TenantRedecisionSettings) -> RedecisionSettings:
    return RedecisionSettings(
        mode=row.mode,
        per_second=row.per_second,
        ceiling_percent=row.ceiling_percent,
        ceiling_sessions=row.ceiling_sessions,
        every_minutes=row.every_minutes,
    )


def _row(run: RedecisionRow) -> dict[str, Any]:
    same = ("id", "cause", "asked_by", "scope", "state", "sessions", "unchanged", "disconnects", "reauthentications")
    return {
        **{name: getattr(run, name) for name in same},
        "may_disconnect": run.may_disconnect,
        "began_at": run.created_at,
        "ended_at": run.ended_at,
        "waits_for": run.waits_for or None,
        "cannot_be_redecided": dict(run.undecidable),
        "detail": run.detail,
    }
