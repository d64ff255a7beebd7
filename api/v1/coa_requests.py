"""Requests to NASes about live sessions (RFC 5176), and their results."""

from typing import Annotated, Any

from fastapi import Depends, Path, Query
from pydantic import Field

from api.access import Access, ChangesTenant, ReadsTenant
from api.routes import NounRouter
from api.v1.coa_models import CoaRequest, CreatedCoaRequests, build_coa_request
from api.v1.inputs import Input, body_examples, body_references
from api.v1.list_parameters import Mac, RowNumber, User
from api.v1.paging import OrderedPaging, Page, require_paging
from nac.kit.permissions import Effect, Permission
from nac.models.coa_request import CoaKind, CoaReason, CoaState
from nac.sessions.coa_requests import service as coa_requests
from nac.sessions.coa_requests.repository import ORDERS

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
    session: RowNumber | None = Field(None, description="Id of the session; null for sessions with any id.")
    mac: str = Field(
        "",
        max_length=40,
        examples=["00:00:5e:00:53:01"],
        description='MAC address of the device of the sessions; "" for any.',
    )
    user: str = Field("", max_length=253, description='User name of the sessions; "" for any.')
    nas: str = Field("", max_length=253, description='Name of the NAS of the sessions; "" for any.')
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
    """Retry a failed request to a NAS.

    The response is the new request.
    """
    with access.change() as change:
        row = coa_requests.require_request(change.session, tenant_id=access.tenant_id, request_id=request)
        _require_kind_permission(access, row.kind)
        row = coa_requests.retry_request(
            change.session, actor=access.actor, tenant_id=access.tenant_id, request_id=request
        )
        change.located(row.id, at="coa-requests")
        return change.answer(build_coa_request(row))


@router.post("/{request}/cancel", operation_id="cancelCoaRequest")
def withdraw_coa_request(access: Withdraws, request: _Request) -> CoaRequest:
    """Cancel a request to a NAS. Admit then sends no more packets of the request."""
    with access.change() as change:
        row = coa_requests.withdraw_request(
            change.session, actor=access.actor, tenant_id=access.tenant_id, request_id=request
        )
        return change.answer(build_coa_request(row))


def _require_kind_permission(access: Access, kind: str) -> None:
    """Require `policy.publish` for a change of attributes, because usually rules set these attributes."""
    if kind == "change":
        access.require(Permission.POLICY_PUBLISH)
