"""CoA and disconnect requests to NASes about live sessions (RFC 5176), and their results."""

from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

from fastapi import Depends, Path, Query
from pydantic import BaseModel, Field

from api.access import Access, ChangesTenant, ReadsTenant
from api.routes import NounRouter
from api.v1.inputs import Input, body_examples, body_references
from api.v1.list_parameters import Mac, RowNumber, User
from api.v1.paging import OrderedPaging, Page, require_paging
from nac.kit.mac import display_mac
from nac.kit.permissions import Effect, Permission
from nac.models import CoaRequest as CoaRequestRow
from nac.models.coa_request import CoaKind, CoaReason, CoaState
from nac.sessions.coa_requests import service as coa_requests
from nac.sessions.coa_requests.error_causes import explain_error_cause
from nac.sessions.coa_requests.repository import ORDERS


class CoaRequest(BaseModel):
    """A request to a NAS about a live session (RFC 5176), and its result."""

    id: int = Field(description="Permanent id of the request.")
    kind: CoaKind = Field(description="Kind of request to the NAS.")
    state: CoaState = Field(description="State of the request.")
    session: int = Field(description="Id of the session that the request is about.")
    session_id: str = Field(description="Acct-Session-Id of the session (RFC 2866 5.5).")
    mac: str | None = Field(description="MAC address of the device, such as 00:00:5e:00:53:01.")
    user: str = Field(description='User name of the session; "" if unknown.')
    nas: str = Field(
        description="Name of the NAS that receives the request. If the NAS is not registered: its "
        "NAS-Identifier or address."
    )
    nas_id: UUID | None = Field(description="Id of the NAS that receives the request; null for an unregistered NAS.")
    nas_address: str | None = Field(description="IP address of the NAS that receives the request.")
    reason: CoaReason = Field(
        description="Reason of the request, such as requested, endpoint-blocked, certificate-revoked or redecided."
    )
    attributes: list[dict[str, Any]] = Field(
        description="Attributes that a request of the kind `change` sets, with value and optional tag."
    )
    redecision: int | None = Field(
        description="Id of the re-decision (new decision about live sessions) that caused the request."
    )
    requested_by: str = Field(description="Actor who created the request, such as token:setup.")
    requested_at: datetime = Field(description="Time when the request was created.")
    sent_at: datetime | None = Field(description="Time when Admit sent the request; null while the request waits.")
    ended_at: datetime | None = Field(
        description="Time when Admit completed the request; null if the request is not complete."
    )
    expires_at: datetime = Field(description="Time after which Admit does not send the request to the NAS.")
    packets: int = Field(description="Number of packets that Admit sent for the request, including retransmissions.")
    retries: int = Field(
        description="Number of times that Admit postponed the request because the NAS did not respond."
    )
    step: int = Field(description="Number of the current step in the vendor's sequence of requests, from 1.")
    answer_code: int | None = Field(description="RADIUS code of the NAS's response, such as 44 for CoA-ACK.")
    error_cause: int | None = Field(description="Error-Cause of the NAS's response (RFC 5176 3.5).")
    explanation: str = Field(
        examples=["Error-Cause 503: The NAS does not know the session."],
        description='Meaning of the NAS\'s response and what to do; "" if the request succeeded.',
    )
    detail: str = Field(description='Explanation of the request in one sentence; "" if none.')


class CreatedCoaRequests(BaseModel):
    items: list[CoaRequest] = Field(description="Created requests to NASes.")


def build_coa_request(row: CoaRequestRow) -> CoaRequest:
    return CoaRequest.model_validate(
        {
            "id": row.id,
            "kind": row.kind,
            "state": row.state,
            "session": row.session_row,
            "session_id": row.session_id,
            "mac": display_mac(row.mac) if row.mac else None,
            "user": row.identity,
            "nas": row.nas_key.partition("|")[0] or row.nas_address or "",
            "nas_id": row.nas_id,
            "nas_address": row.nas_address,
            "reason": row.reason,
            "attributes": list(row.attributes),
            "redecision": row.redecision_id,
            "requested_by": row.requested_by,
            "requested_at": row.created_at,
            "sent_at": row.sent_at,
            "ended_at": row.ended_at,
            "expires_at": row.expires_at,
            "packets": row.attempts,
            "retries": row.retries,
            "step": row.step + 1,
            "answer_code": row.answer_code,
            "error_cause": row.error_cause,
            "explanation": explain_error_cause(row.error_cause) if row.error_cause else "",
            "detail": row.detail,
        }
    )


router = NounRouter(
    prefix="/tenants/{tenant}/coa-requests",
    tag="CoA requests",
    description="Requests to NASes (RFC 5176) that disconnect, reauthenticate, bounce or change sessions.",
)

Reads = Annotated[Access, Depends(ReadsTenant(Permission.SESSION_READ))]
SendsCoa = Annotated[
    Access,
    Depends(
        ChangesTenant(
            Permission.SESSION_DISCONNECT,
            *(Effect.SESSIONS, Effect.AUTHORIZATION, Effect.WORK),
            also={Permission.POLICY_PUBLISH},
        )
    ),
]
_Request = Annotated[RowNumber, Path(description="Id of the request to the NAS.")]


class CoaAttribute(Input):
    attribute: str = Field(
        max_length=253, examples=["Session-Timeout"], description="Name of the RADIUS attribute to set."
    )
    value: str = Field(max_length=1_000, examples=["600"], description="Value of the attribute, as text.")
    tag: int | None = Field(None, ge=1, le=31, description="Tag of the RADIUS attribute (RFC 2868 3.1); null if none.")


class CoaRequestsInput(Input):
    """Requests to NASes about the live sessions that match all fields. At most 1,000 sessions can match."""

    model_config = body_examples(
        ("disconnect", "Disconnect the sessions of a device", {"kind": "disconnect", "mac": "00:00:5e:00:53:01"}),
        (
            "change",
            "Change sessions until their next authentication",
            {"kind": "change", "user": "ann", "attributes": [{"attribute": "Session-Timeout", "value": "600"}]},
        ),
    )

    kind: CoaKind = Field(
        description=(
            "Kind of request: disconnect the session, reauthenticate the device, bounce the port, or change attributes."
        )
    )
    session: RowNumber | None = Field(None, description="Only the session with this id; null for no restriction by id.")
    mac: str = Field(
        "",
        max_length=40,
        examples=["00:00:5e:00:53:01"],
        description='Only sessions of the device with this MAC address; "" for no restriction by MAC address.',
    )
    user: str = Field(
        "", max_length=253, description='Only sessions with this user name; "" for no restriction by user name.'
    )
    nas: str = Field(
        "", max_length=253, description='Only sessions at the NAS with this name; "" for no restriction by NAS.'
    )
    attributes: list[CoaAttribute] = Field(
        default=[], max_length=50, description="Attributes to set; only for the kind `change`."
    )


Withdraws = Annotated[Access, Depends(ChangesTenant(Permission.SESSION_DISCONNECT, Effect.SESSIONS, Effect.WORK))]


@router.get("", operation_id="listCoaRequests")
def list_coa_requests(
    access: Reads,
    paging: Annotated[OrderedPaging, Depends(require_paging(ORDERS))],
    state: Annotated[list[CoaState] | None, Query(description="State of the requests to list.")] = None,
    session: Annotated[RowNumber | None, Query(description="Id of the session that the requests are about.")] = None,
    mac: Mac = "",
    user: User = "",
    nas: Annotated[str, Query(max_length=253, description="Name of the NAS that receives the requests.")] = "",
    reason: Annotated[CoaReason | None, Query(description="Reason of the requests to list.")] = None,
    redecision: Annotated[
        RowNumber | None,
        Query(description="Id of the re-decision (new decision about live sessions) that caused the requests."),
    ] = None,
) -> Page[CoaRequest]:
    """List requests to NASes, pending and finished.

    A page can have fewer items than `limit` and still have a `next`.
    """
    with access.read() as opened:
        page = coa_requests.search_requests(
            opened,
            tenant_id=access.tenant_id,
            states=tuple(state or ()),
            row=session,
            mac=mac,
            user=user,
            nas=nas,
            reason=reason or "",
            redecision=redecision,
            span=paging.span,
        )
        return paging.ordered(page.rows, build_coa_request, searched=page.searched)


@router.post("", status_code=202, operation_id="createCoaRequests")
def create_coa_requests(access: SendsCoa, body: CoaRequestsInput) -> CreatedCoaRequests:
    """Send requests to NASes about live sessions.

    A request disconnects the session, reauthenticates the device, bounces the port, or changes attributes of the
    session until the next authentication. The kind `change` requires `policy.publish` too.
    """
    _require_kind_permission(access, body.kind)
    fields: dict[str, Any] = body.model_dump(exclude={"session", "attributes"})
    attributes = [each.model_dump(exclude_none=True) for each in body.attributes]
    with access.change() as change, body_references():
        rows = coa_requests.create_requests(
            change.session,
            actor=access.actor,
            tenant_id=access.tenant_id,
            row=body.session,
            attributes=attributes,
            **fields,
        )
        return change.answer(CreatedCoaRequests(items=[build_coa_request(row) for row in rows]))


@router.get("/{request}", operation_id="getCoaRequest")
def get_coa_request(access: Reads, request: _Request) -> CoaRequest:
    """Get a request to a NAS, with the result."""
    with access.read() as session:
        return build_coa_request(coa_requests.require_request(session, tenant_id=access.tenant_id, request_id=request))


@router.post("/{request}/retry", status_code=202, operation_id="retryCoaRequest")
def retry_coa_request(access: SendsCoa, request: _Request) -> CoaRequest:
    """Retry a failed request to a NAS. Returns the new request to the NAS, which replaces the failed request."""
    with access.change() as change:
        row = coa_requests.require_request(change.session, tenant_id=access.tenant_id, request_id=request)
        _require_kind_permission(access, row.kind)
        row = coa_requests.retry_request(
            change.session, actor=access.actor, tenant_id=access.tenant_id, request_id=request
        )
        change.located(row.id, at="coa-requests")
        return change.answer(build_coa_request(row))


@router.post("/{request}/cancel", operation_id="cancelCoaRequest")
def cancel_coa_request(access: Withdraws, request: _Request) -> CoaRequest:
    """Cancel a request to a NAS. Admit then sends no more packets of the request."""
    with access.change() as change:
        row = coa_requests.cancel_request(
            change.session, actor=access.actor, tenant_id=access.tenant_id, request_id=request
        )
        return change.answer(build_coa_request(row))


def _require_kind_permission(access: Access, kind: str) -> None:
    """Require `policy.publish` for the kind `change`, because usually policy rules set the attributes of a session."""
    if kind == "change":
        access.require(Permission.POLICY_PUBLISH)
