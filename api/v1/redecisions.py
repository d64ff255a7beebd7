"""Re-decisions: new decisions about live sessions after a change."""

from datetime import datetime
from typing import Annotated, Any

from fastapi import Depends, Path, Query
from pydantic import BaseModel, Field
from sqlalchemy.orm import Session

from api.access import Access, ChangesTenant, ReadsTenant
from api.change import Change, ObservedModel
from api.routes import NounRouter
from api.v1.inputs import Input, Omittable, Slug, body_example, body_references
from api.v1.list_parameters import RowNumber
from api.v1.paging import OrderedPaging, Page, require_paging
from nac.kit.permissions import Effect, Permission
from nac.models import Redecision as RedecisionRow
from nac.models.redecision import RedecisionMode, RedecisionState
from nac.policies import service as policies
from nac.redecisions import service as redecisions
from nac.redecisions.repository import ORDERS
from nac.redecisions.settings import TenantRedecisionSettings

router = NounRouter(
    prefix="/tenants/{tenant}/redecisions",
    tag="re-decisions",
    description=(
        "New decisions about live sessions after a change. If the result differs, Admit sends a request to the NAS."
    ),
)

Reads = Annotated[Access, Depends(ReadsTenant(Permission.REDECISION_READ))]
Changes = Annotated[Access, Depends(ChangesTenant(Permission.REDECISION_MANAGE, Effect.SESSIONS))]
_Redecision = Annotated[RowNumber, Path(description="Id of the re-decision.")]


class Redecision(ObservedModel):
    id: int = Field(description="Permanent id of the re-decision.")
    began_at: datetime = Field(description="Time when the re-decision started.")
    ended_at: datetime | None = Field(
        description="Time when the re-decision ended; null if the re-decision has not ended."
    )
    cause: str = Field(description="Change that caused the re-decision, and the actor who made that change.")
    requested_by: str = Field(description="Actor who started the re-decision, such as token:setup.")
    scope: str = Field(
        description=(
            "Scope of the re-decision: `all` for all live sessions of the tenant, or `some` for only the sessions "
            "that a change affects."
        )
    )
    state: RedecisionState = Field(
        description=(
            "State of the re-decision: deciding, waiting (for approval), sending (requests to NASes), done, "
            "stopped, or superseded by a later re-decision."
        )
    )
    waits_for: str | None = Field(
        description=(
            "Reason why the re-decision waits for approval: the mode `preview`, or more disconnects than the "
            "ceiling permits (`ceiling`)."
        )
    )
    sessions: int = Field(description="Number of sessions that Admit has checked so far.")
    unchanged: int = Field(description="Number of sessions for which a new decision has the same result.")
    disconnects: int = Field(description="Number of sessions for which the re-decision requires a disconnect.")
    reauthentications: int = Field(
        description="Number of sessions for which the re-decision requires a reauthentication."
    )
    may_disconnect: int = Field(
        description=(
            "Number of sessions for which the request to the NAS may disconnect the device. This number includes "
            "all disconnect requests."
        )
    )
    cannot_be_redecided: dict[str, int] = Field(
        description="Number of sessions about which Admit cannot decide again, by reason."
    )
    detail: str = Field(description='Explanation of the state in one sentence; "" if none.')

    def observed_fields(self) -> set[str]:
        """Return the fields that the worker updates, even after it has decided about all sessions."""
        beside = set(type(self).model_fields) - set(Redecision.model_fields)
        return beside | _RESULT_FIELDS if self.state in ("deciding", "sending") else beside


_RESULT_FIELDS = {
    *("state", "sessions", "unchanged", "disconnects", "reauthentications"),
    *("may_disconnect", "cannot_be_redecided", "detail"),
}


class ActionCounts(BaseModel):
    disconnect: int = Field(description="Number of sessions for which the re-decision requires a disconnect.")
    reauthenticate: int = Field(description="Number of sessions for which the re-decision requires a reauthentication.")


class NasActionCounts(ActionCounts):
    nas: str = Field(
        description="Name of the NAS of the sessions. If the NAS is not registered: its NAS-Identifier or address."
    )


class SiteActionCounts(ActionCounts):
    site: str = Field(
        description='Slug of the site of the sessions; "" if the sessions have no site, or the site was deleted.'
    )


class RedecisionOutcome(BaseModel):
    verdict: str = Field(
        description=('Verdict of the policy; "" if no policy decided. Monitor mode does not enforce the verdict.')
    )
    rule: str = Field(description='Name of the rule that decided; "" if no rule decided.')
    vlan: str = Field(description='VLAN that the decision assigns to the device; "" if none.')
    text: str = Field(description="Verdict, rule and VLAN of the decision in one text.")
    reason: str | None = Field(None, description="Reason code of the decision.")


class RedecisionExample(BaseModel):
    session: int = Field(description="Id of the session.")
    mac: str = Field(description="MAC address of the device, such as 00:00:5e:00:53:01.")
    identity: str = Field(description="Identity that the device or user of the session sent.")
    nas: str = Field(
        description="Name of the NAS of the session. If the NAS is not registered: its NAS-Identifier or address."
    )


class RedecisionDifference(BaseModel):
    action: str = Field(description="Action for the sessions: disconnect or reauthenticate.")
    sessions: int = Field(description="Number of sessions with this difference.")
    before: RedecisionOutcome = Field(description="Result of the decision before the change.")
    after: RedecisionOutcome = Field(description="Result of the decision after the change.")
    examples: list[RedecisionExample] = Field(description="Examples of sessions with this difference.")


class RedecisionSummary(BaseModel):
    """Number of affected sessions by NAS, by site and by change, largest number first."""

    nases: list[NasActionCounts] = Field(description="Number of affected sessions by NAS.")
    sites: list[SiteActionCounts] = Field(description="Number of affected sessions by site.")
    changes: list[RedecisionDifference] = Field(
        description="Number of affected sessions by change of the decision's result."
    )


class RedecisionDetail(Redecision, RedecisionSummary):
    items: dict[str, int] = Field(
        description=(
            "Number of sessions whose new decision differs from the current decision, by state: `found` (no "
            "CoA request yet), `requested` (CoA request queued), `settled` (no CoA request needed any more), "
            "`withdrawn` (CoA request cancelled)."
        )
    )
    requests: dict[str, int] = Field(
        description="Number of CoA requests of the re-decision, by state. `listCoaRequests` lists the requests."
    )


class CancelledRedecision(Redecision):
    withdrawn: int = Field(description="Number of CoA requests that Admit cancelled.")


class RedecisionPreviewInput(Input):
    """Policy with which the preview decides.

    This is the document `draft`; without `draft`, the stored `version`; without both, the newest version.
    """

    model_config = body_example({"policy": "office", "version": 2})

    policy: Slug | None = Field(None, description="Slug of the policy; null for the tenant's only policy.")
    version: RowNumber | None = Field(None, description="Number of the policy version; null for the newest version.")
    draft: dict[str, Any] | None = Field(
        None, description="Policy document to preview; null for a stored policy version."
    )
    in_force: bool = Field(
        False, description="Whether to preview a re-decision with the policies that are in force now."
    )


class RedecisionPreview(RedecisionSummary):
    sessions: int = Field(description="Number of live sessions that Admit checked.")
    unchanged: int = Field(description="Number of sessions for which a new decision has the same result.")
    already_requested: int = Field(
        description="Number of sessions for which a CoA request is pending or was just completed."
    )
    disconnects: int = Field(description="Number of sessions that Admit would disconnect.")
    reauthentications: int = Field(description="Number of sessions that Admit would reauthenticate.")
    may_disconnect: int = Field(
        description=(
            "Number of sessions for which the request to the NAS may disconnect the device. This number includes "
            "all disconnect requests."
        )
    )
    cannot_be_redecided: dict[str, int] = Field(
        description="Number of sessions about which Admit cannot decide again, by reason."
    )
    over_ceiling: bool = Field(
        description=(
            "Whether the re-decision would wait for approval, because it disconnects more sessions than the ceiling "
            "permits."
        )
    )
    mode: RedecisionMode = Field(
        description="Mode of re-decisions: no re-decision (off), only a preview (preview), or CoA requests (send)."
    )


class RedecisionSettings(BaseModel):
    mode: RedecisionMode = Field(
        description="Mode of re-decisions: no re-decision (off), only a preview (preview), or CoA requests (send)."
    )
    per_second: int = Field(description="Maximum number of CoA requests per second to the tenant's NASes.")
    ceiling_percent: int = Field(
        description="Largest percentage of live sessions that Admit disconnects without approval."
    )
    ceiling_sessions: int = Field(
        description="Largest number of live sessions that Admit disconnects without approval."
    )
    every_minutes: int = Field(
        description=(
            "Interval in minutes at which Admit decides again about all sessions even without a change (5 to "
            "1440; 0 for never)."
        )
    )


class RedecisionSettingsUpdate(Input):
    model_config = body_example({"mode": "preview", "per_second": 20, "ceiling_percent": 10, "every_minutes": 60})

    mode: Omittable[RedecisionMode] = Field(
        None,
        description="Mode of re-decisions: no re-decision (off), only a preview (preview), or CoA requests (send).",
    )
    per_second: Omittable[int] = Field(
        None, ge=1, le=500, description="Maximum number of CoA requests per second to the tenant's NASes."
    )
    ceiling_percent: Omittable[int] = Field(
        None,
        ge=0,
        le=100,
        description="Largest percentage of live sessions that Admit disconnects without approval.",
    )
    ceiling_sessions: Omittable[int] = Field(
        None,
        ge=0,
        le=10_000_000,
        description="Largest number of live sessions that Admit disconnects without approval.",
    )
    every_minutes: Omittable[int] = Field(
        None,
        ge=0,
        le=1_440,
        description=(
            "Interval in minutes at which Admit decides again about all sessions even without a change (5 to "
            "1440; 0 for never)."
        ),
    )


@router.get("", operation_id="listRedecisions")
def list_redecisions(
    access: Reads,
    paging: Annotated[OrderedPaging, Depends(require_paging(ORDERS))],
    state: Annotated[list[RedecisionState] | None, Query(description="State of the re-decisions to list.")] = None,
) -> Page[Redecision]:
    """List re-decisions, running and finished."""
    with access.read() as session:
        rows = redecisions.list_redecisions(session, tenant_id=access.tenant_id, span=paging.span, states=state or ())
        return paging.ordered(rows, lambda row: Redecision(**_describe_redecision(row)))


@router.post("", status_code=202, operation_id="startRedecision")
def start_redecision(access: Changes) -> Redecision:
    """Start a re-decision, which decides again about all live sessions.

    Admit sends requests to NASes about sessions whose result changes. If a re-decision would disconnect more sessions
    than the ceiling, the re-decision waits for approval.
    """
    with access.change() as change:
        run = redecisions.start_redecision(change.session, actor=access.actor, tenant_id=access.tenant_id)
        change.session.refresh(run)
        change.located(run.id)
        return change.answer(Redecision(**_describe_redecision(run)))


@router.post("/preview", operation_id="previewRedecision")
def preview_redecision(access: Reads, body: RedecisionPreviewInput) -> RedecisionPreview:
    """Preview the CoA requests that a re-decision with a policy would send.

    Nothing is sent or stored.
    """
    with access.read() as session, body_references(slug="policy"):
        drafts: dict[Any, object] = {}
        if not body.in_force:
            policy = policies.find_policy(session, tenant_id=access.tenant_id, slug=body.policy or "")
            drafts[policy.id] = (
                body.draft if body.draft is not None else _get_document(session, access, policy.slug, body)
            )
        preview = redecisions.preview_redecision(session, tenant_id=access.tenant_id, drafts=drafts)
    tallies = preview.tallies
    return RedecisionPreview(
        **tallies.row(),
        sessions=tallies.sessions,
        unchanged=tallies.unchanged,
        already_requested=tallies.already_requested,
        may_disconnect=tallies.may_disconnect,
        cannot_be_redecided=dict(tallies.undecidable),
        over_ceiling=preview.over_ceiling,
        mode=preview.settings.mode,
    )


@router.get("/settings", operation_id="getRedecisionSettings")
def get_settings(access: Reads) -> RedecisionSettings:
    """Get the settings of re-decisions."""
    with access.read() as session:
        return access.shown(_build_settings(redecisions.get_settings(session, tenant_id=access.tenant_id)))


@router.patch("/settings", operation_id="updateRedecisionSettings")
def update_settings(access: Changes, body: RedecisionSettingsUpdate) -> RedecisionSettings:
    """Update the settings of re-decisions.

    Omitted fields stay unchanged.
    """
    given = body.model_dump(exclude_unset=True)
    with access.change() as change:
        now = redecisions.get_settings(change.session, tenant_id=access.tenant_id, lock=True)
        change.require_match(_build_settings(now))
        made = redecisions.update_settings(change.session, actor=access.actor, tenant_id=access.tenant_id, **given)
        return change.answer(_build_settings(made))


@router.get("/{redecision}", operation_id="getRedecision")
def get_redecision(access: Reads, redecision: _Redecision) -> RedecisionDetail:
    """Get a re-decision, with results and progress."""
    with access.read() as session:
        run = redecisions.require_redecision(session, tenant_id=access.tenant_id, number=redecision)
        found = redecisions.redecision_row(session, run)
        whole = {name: found.get(name, {}) for name in ("nases", "sites", "changes", "items", "requests")}
        return access.shown(RedecisionDetail(**_describe_redecision(run), **whole))


@router.post("/{redecision}/approve", status_code=202, operation_id="approveRedecision")
def approve_redecision(access: Changes, redecision: _Redecision) -> Redecision:
    """Approve a re-decision that waits because of the mode `preview` or the ceiling of disconnects.

    Admit then sends the requests to NASes.
    """
    with access.change() as change:
        _require_match(change, access, redecision)
        run = redecisions.approve_redecision(
            change.session, actor=access.actor, tenant_id=access.tenant_id, number=redecision
        )
        return change.answer(Redecision(**_describe_redecision(run)))


@router.post("/{redecision}/cancel", operation_id="cancelRedecision")
def cancel_redecision(access: Changes, redecision: _Redecision) -> CancelledRedecision:
    """Stop a re-decision and cancel the queued CoA requests of the re-decision.

    Admit does not revert completed requests.
    """
    with access.change() as change:
        run = _require_match(change, access, redecision)
        withdrawn = redecisions.cancel_redecision(
            change.session, actor=access.actor, tenant_id=access.tenant_id, number=redecision
        )
        return change.answer(
            CancelledRedecision(**_describe_redecision(run), withdrawn=withdrawn),
            state=Redecision(**_describe_redecision(run)),
        )


def _require_match(change: Change, access: Access, number: int) -> RedecisionRow:
    run = redecisions.require_redecision(change.session, tenant_id=access.tenant_id, number=number, lock=True)
    change.require_match(Redecision(**_describe_redecision(run)))
    return run


def _get_document(session: Session, access: Access, slug: str, body: RedecisionPreviewInput) -> object:
    return policies.require_newest_version(session, tenant_id=access.tenant_id, slug=slug, number=body.version).document


def _build_settings(row: TenantRedecisionSettings) -> RedecisionSettings:
    return RedecisionSettings(
        mode=row.mode,
        per_second=row.per_second,
        ceiling_percent=row.ceiling_percent,
        ceiling_sessions=row.ceiling_sessions,
        every_minutes=row.every_minutes,
    )


def _describe_redecision(run: RedecisionRow) -> dict[str, Any]:
    same = (
        "id",
        "cause",
        "requested_by",
        "scope",
        "state",
        "sessions",
        "unchanged",
        "disconnects",
        "reauthentications",
    )
    return {
        **{name: getattr(run, name) for name in same},
        "may_disconnect": run.may_disconnect,
        "began_at": run.created_at,
        "ended_at": run.ended_at,
        "waits_for": run.waits_for or None,
        "cannot_be_redecided": dict(run.undecidable),
        "detail": run.detail,
    }
