"""Timeline of an endpoint."""

from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from fastapi import Depends, Path, Query
from pydantic import BaseModel, Field

from api.access import Access, ReadsTenant
from api.routes import NounRouter
from api.v1.audit import AuditDifference
from api.v1.certificate_models import Certificate, build_certificate
from api.v1.decisions import Decision, build_decision
from api.v1.endpoint_findings import EndpointEvidence
from api.v1.list_parameters import LogPage, Since, Until
from api.v1.paging import Paging, build_invalid_place
from api.v1.sessions import Session, build_session
from api.v1.timestamps import EARLIEST, LATEST
from nac.core.audit.service import list_differences
from nac.helpdesk import timeline
from nac.helpdesk.timeline import (
    KIND_PERMISSIONS,
    CertificateItem,
    DecisionItem,
    SessionItem,
    TimelineContent,
    TimelineKey,
    TimelineKind,
)
from nac.kit.errors import InvalidInput
from nac.kit.permissions import Permission
from nac.models import AuditEntry

router = NounRouter(
    prefix="/tenants/{tenant}/endpoints/{mac}/timeline",
    tag="endpoint timeline",
    description="Decisions, sessions, changes, certificates and evidence of a device in one list.",
)

_Mac = Annotated[
    str, Path(description="MAC address: 12 hex digits in any notation.", max_length=40, examples=["00:00:5e:00:53:01"])
]
Reads = Annotated[Access, Depends(ReadsTenant(Permission.ENDPOINT_READ))]


class TimelineDecision(BaseModel):
    count: int = Field(
        examples=[12],
        description="Number of adjacent decisions with the same result at the same port that this item stands for, "
        "including rejects that Admit counted instead of logging.",
    )
    first_at: datetime = Field(description="Time of the oldest of these decisions.")
    last_at: datetime = Field(description="Time of the newest of these decisions.")
    newest: Decision = Field(description="Newest of these decisions.")


class TimelineSession(BaseModel):
    event: Literal["started", "ended"] = Field(description="Event of the session.")
    session: Session = Field(description="Session with its usage.")


class TimelineChange(BaseModel):
    actor: str = Field(
        description="Kind and name of the actor who made the change.",
        examples=["token:monitoring (admit_abcdefgh01234567)"],
    )
    action: str = Field(examples=["endpoint.set"], description="Action as noun.verb, such as endpoint.add.")
    differences: list[AuditDifference] = Field(description="Changed fields, with their values before and after.")


class TimelineCertificate(BaseModel):
    event: Literal["issued", "revoked", "suspended", "expiring", "expired"] = Field(
        description="Event of the certificate. `expiring`: the last 30 days of the validity began."
    )
    certificate: Certificate = Field(description="Certificate that the device holds.")


class TimelineItem(BaseModel):
    at: datetime = Field(description="Time of the event. For repeated decisions, the time of the newest.")
    kind: TimelineKind = Field(examples=["decision"], description="Kind of the event.")
    id: str = Field(
        examples=["1767225600000000-4711"],
        description="Id of the decision, session or audit entry, serial number of the certificate, or source and key "
        "of the evidence.",
    )
    title: str = Field(
        examples=["Admit rejected the device at sw-2og-1: No rule matched."],
        description="Description of the event in one sentence.",
    )
    detail: str = Field(description='Details of the event; "" if none.')
    decision: TimelineDecision | None = Field(description="Decisions of the event; null for other kinds.")
    session: TimelineSession | None = Field(description="Session of the event; null for other kinds.")
    change: TimelineChange | None = Field(description="Change of the endpoint; null for other kinds.")
    certificate: TimelineCertificate | None = Field(description="Certificate of the event; null for other kinds.")
    evidence: EndpointEvidence | None = Field(
        description="Latest value of an observation of the device; null for other kinds. Earlier values are not stored."
    )


class TimelinePage(LogPage[TimelineItem]):
    omitted: list[TimelineKind] = Field(
        examples=[["change"]], description="Requested kinds that the list omits, because you cannot read them."
    )


@router.get("", operation_id="listEndpointTimeline")
def list_timeline(
    access: Reads,
    mac: _Mac,
    paging: Annotated[Paging, Depends()],
    kind: Annotated[list[TimelineKind] | None, Query(description="Kinds of the events to list.")] = None,
    since: Since = None,
    until: Until = None,
) -> TimelinePage:
    """List what happened to a device, newest first: decisions, sessions, changes, certificates and evidence.

    Works also for a device that is not registered. Decisions, sessions, certificates and changes need `log.read`,
    `session.read`, `certificate.read` and `audit.read`; `omitted` lists kinds that you cannot read. One item stands for
    adjacent decisions with the same result at the same port. A page can have fewer items than `limit`, and still have a
    `next`.
    """
    if since is not None and until is not None and until <= since:
        raise InvalidInput("`until` must be after `since`.", place="until", remedy="Set a later time for `until`.")
    wanted = list(dict.fromkeys(kind or KIND_PERMISSIONS))
    readable = [each for each in wanted if KIND_PERMISSIONS[each] in access.held]
    with access.read() as session:
        found = timeline.list_timeline(
            session,
            tenant_id=access.tenant_id,
            mac=mac,
            kinds=readable,
            before=_parse_key(paging.after()),
            since=since,
            until=until,
            limit=paging.limit,
        )
        return TimelinePage(
            items=[_build_item(item.key.at, item.content) for item in found.items],
            next=paging.cursor(_format_key(found.next)) if found.next else None,
            searched_to=found.next.at if found.next else None,
            omitted=[each for each in wanted if each not in readable],
        )


def _format_key(key: TimelineKey) -> str:
    return f"{key.at.isoformat()} {key.source} {key.number}"


def _parse_key(text: str) -> TimelineKey | None:
    if not text:
        return None
    try:
        moment, source, number = text.split(" ")
        key = TimelineKey(datetime.fromisoformat(moment), int(source), int(number))
    except ValueError as exc:
        raise build_invalid_place() from exc
    if key.at.tzinfo is None or not EARLIEST <= key.at <= LATEST or not key.is_valid:
        raise build_invalid_place()
    return key


def _build_item(at: datetime, content: TimelineContent) -> TimelineItem:
    title, detail = timeline.describe_item(content)
    given: dict[str, Any] = dict.fromkeys(KIND_PERMISSIONS)
    match content:
        case DecisionItem():
            kind, key = "decision", content.newest.reference
            given[kind] = TimelineDecision(
                count=content.count,
                first_at=content.first_at.astimezone(UTC),
                last_at=content.last_at.astimezone(UTC),
                newest=build_decision(content.newest),
            )
        case SessionItem():
            kind, key = "session", str(content.session.row.id)
            given[kind] = TimelineSession(event=content.event, session=build_session(content.session))
        case AuditEntry():
            kind, key = "change", str(content.id)
            given[kind] = TimelineChange(
                actor=content.actor,
                action=content.action,
                differences=[
                    AuditDifference(name=each.name, before=each.before, after=each.after)
                    for each in list_differences(content.before, content.after)
                ],
            )
        case CertificateItem():
            row = content.certificate
            kind, key = "certificate", row.serial.hex()
            given[kind] = TimelineCertificate(event=content.event, certificate=build_certificate(row))
        case _:
            kind, key = "evidence", f"{content.source} {content.key}"
            given[kind] = EndpointEvidence(
                source=content.source, key=content.key, value=content.value, at=content.at
            )
    return TimelineItem(at=at.astimezone(UTC), kind=kind, id=key, title=title, detail=detail, **given)
