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
from nac.redecisions.settings import Settings

router = APIRouter(prefix="/tenants/{tenant}/redecisions", tags=["re-decisions"])

Reads = Annotated[Access, Depends(ReadsTenant(Permission.REDECISION_READ))]
Changes = Annotated[Access, Depends(ChangesTenant(Permission.REDECISION_MANAGE, Effect.SESSIONS))]


class Redecision(Observed):
    id: int
    began_at: datetime
    ended_at: datetime | None
    # What changed, and who asked.
    cause: str
    asked_by: str
    # all | some: which sessions are looked at.
    scope: str
    state: RedecisionState
    # preview or ceiling where it waits for approval.
    waits_for: str | None
    sessions: int
    unchanged: int
    disconnects: int
    reauthentications: int
    # Of both, where a step of what the NAS is asked is a Disconnect.
    may_disconnect: int
    # How many sessions, by why.
    cannot_be_redecided: dict[str, int]
    detail: str

    def observed(self) -> set[str]:
        """While it is under way the worker brings it on; what it found, and how far that was sent, goes on besides."""
        beside = set(type(self).model_fields) - set(Redecision.model_fields)
        return beside | _BROUGHT if self.state in ("deciding", "sending") else beside


_BROUGHT = {
    *("state", "sessions", "unchanged", "disconnects", "reauthentications"),
    *("may_disconnect", "cannot_be_redecided", "detail"),
}


class ActionCounts(BaseModel):
    disconnect: int
    reauthenticate: int


class NasActionCounts(ActionCounts):
    nas: str


class SiteActionCounts(ActionCounts):
    site: str


class RedecisionOutcome(BaseModel):
    verdict: str
    rule: str
    vlan: str
    text: str
    # Code of the reason, of what it would be.
    reason: str | None = None


class RedecisionExample(BaseModel):
    session: int
    mac: str
    identity: str
    nas: str


class RedecisionDifference(BaseModel):
    action: str
    sessions: int
    before: RedecisionOutcome
    after: RedecisionOutcome
    examples: list[RedecisionExample]


class RedecisionSummary(BaseModel):
    """The largest first."""

    nases: list[NasActionCounts]
    sites: list[SiteActionCounts]
    changes: list[RedecisionDifference]


class RedecisionDetail(Redecision, RedecisionSummary):
    # Sessions that differ, by state: found, asked, settled, withdrawn.
    items: dict[str, int]
    # Requests to NASes by state: they are listed under coa-requests.
    requests: dict[str, int]


class CancelledRedecision(Redecision):
    # Requests that were queued.
    withdrawn: int


class RedecisionPreviewInput(Input):
    """As if this were in force. Of neither `draft` nor `version`: the newest version of the policy."""

    # Slug; where it is left out, the tenant's only one.
    policy: Slug | None = None
    version: RowNumber | None = None
    # A document, whatever is stored.
    draft: dict[str, Any] | None = None
    # As things are now: what a start would find.
    in_force: bool = False


class RedecisionPreview(RedecisionSummary):
    sessions: int
    unchanged: int
    # Their NASes are being asked, or have just done what they were asked.
    asked_already: int
    disconnects: int
    reauthentications: int
    may_disconnect: int
    cannot_be_redecided: dict[str, int]
    # Whether it would wait for approval.
    over_ceiling: bool
    mode: RedecisionMode


class RedecisionSettings(BaseModel):
    # What becomes of changes: nothing, a preview, or requests.
    mode: RedecisionMode
    # Requests to the NASes of the tenant.
    per_second: int
    # More disconnects than that of all live sessions wait for approval.
    ceiling_percent: int
    ceiling_sessions: int
    # All sessions are looked at so often without a change; 0 for never.
    every_minutes: int


class RedecisionSettingsUpdate(Input):
    mode: Omittable[RedecisionMode] = None
    per_second: Omittable[int] = Field(None, ge=1, le=500)
    ceiling_percent: Omittable[int] = Field(None, ge=0, le=100)
    ceiling_sessions: Omittable[int] = Field(None, ge=0, le=10_000_000)
    # 5 to 1440, or 0.
    every_minutes: Omittable[int] = Field(None, ge=0, le=1_440)


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
        run = redecisions.start(change.session, actor=access.actor, tenant_id=access.tenant_id)
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
        found = redecisions.preview(session, tenant_id=access.tenant_id, drafts=drafts)
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
        return access.shown(_settings(redecisions.settings_of(session, tenant_id=access.tenant_id)))


@router.patch("/settings", operation_id="updateRedecisionSettings")
def update_settings(access: Changes, body: RedecisionSettingsUpdate) -> RedecisionSettings:
    """What is left out stays as it is."""
    given = body.model_dump(exclude_unset=True)
    with access.change() as change:
        now = redecisions.settings_of(change.session, tenant_id=access.tenant_id, lock=True)
        change.require_match(_settings(now))
        made = redecisions.set_settings(change.session, actor=access.actor, tenant_id=access.tenant_id, **given)
        return change.answer(_settings(made))


@router.get("/{redecision}", operation_id="getRedecision")
def get_redecision(access: Reads, redecision: RowId) -> RedecisionDetail:
    """What it found, and how far it was sent."""
    with access.read() as session:
        run = redecisions.require(session, tenant_id=access.tenant_id, number=redecision)
        found = redecisions.redecision_row(session, run)
        whole = {name: found.get(name, {}) for name in ("nases", "sites", "changes", "items", "requests")}
        return access.shown(RedecisionDetail(**_row(run), **whole))


@router.post("/{redecision}/approve", status_code=202, operation_id="approveRedecision")
def approve_redecision(access: Changes, redecision: RowId) -> Redecision:
    """Send what it has found, which waits for it: for a preview, or because it disconnects many."""
    with access.change() as change:
        _require_match(change, access, redecision)
        run = redecisions.approve(change.session, actor=access.actor, tenant_id=access.tenant_id, number=redecision)
        return change.answer(Redecision(**_row(run)))


@router.post("/{redecision}/stop", operation_id="cancelRedecision")
def stop_redecision(access: Changes, redecision: RowId) -> CancelledRedecision:
    """Send no more of it, and withdraw what is queued; what NASes have done stays done."""
    with access.change() as change:
        run = _require_match(change, access, redecision)
        withdrawn = redecisions.stop(change.session, actor=access.actor, tenant_id=access.tenant_id, number=redecision)
        return change.answer(CancelledRedecision(**_row(run), withdrawn=withdrawn), state=Redecision(**_row(run)))


def _require_match(change: Change, access: Access, number: int) -> RedecisionRow:
    run = redecisions.require(change.session, tenant_id=access.tenant_id, number=number, lock=True)
    change.require_match(Redecision(**_row(run)))
    return run


def _document(session: Session, access: Access, slug: str, body: RedecisionPreviewInput) -> object:
    return policies.require_newest(session, tenant_id=access.tenant_id, slug=slug, number=body.version).document


def _settings(row: Settings) -> RedecisionSettings:
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
