"""What was asked of NASes about live sessions (RFC 5176), and what they answered."""

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query
from pydantic import Field

from api.access import Access, ChangesTenant, ReadsTenant
from api.v1.coa_rows import CoaRequest, CreatedCoaRequests, shown_request
from api.v1.inputs import Input, body_references
from api.v1.keys import Mac, RowId, RowNumber, User
from api.v1.paging import OrderedPaging, Page, sorted_by
from nac.accounts.effects import Effect
from nac.accounts.permissions import Permission
from nac.coa_requests import service as coa_requests
from nac.coa_requests.repository import ORDERS
from nac.models.coa_request import CoaKind, CoaReason, CoaState

router = APIRouter(prefix="/tenants/{tenant}/coa-requests", tags=["CoA requests"])

Reads = Annotated[Access, Depends(ReadsTenant(Permission.SESSION_READ))]
Asks = Annotated[
    Access,
    Depends(
        ChangesTenant(
            Permission.SESSION_DISCONNECT,
            *(Effect.SESSIONS, Effect.AUTHORIZATION, Effect.WORK),
            also={Permission.POLICY_PUBLISH},
        )
    ),
]


class CoaAttribute(Input):
    attribute: str = Field(max_length=253, examples=["Session-Timeout"], description="Name of the attribute.")
    value: str = Field(max_length=1_000, examples=["600"], description="Its value, as text.")
    tag: int | None = Field(None, ge=1, le=31, description="Tag of the attribute (RFC 2868 3.1); null: none.")


class CoaRequestsInput(Input):
    """About the live sessions that fit all that is given: 1,000 at most."""

    kind: CoaKind = Field(
        description="What the NAS is asked: to end the session, to authenticate again, to bounce the port, "
        "to change attributes."
    )
    session: RowNumber | None = Field(None, description="Id of one session.")
    mac: str = Field(
        "",
        max_length=40,
        examples=["00:00:5e:00:53:01"],
        description='All live sessions of this device. "": not by device.',
    )
    user: str = Field("", max_length=253, description='All live sessions of this user. "": not by user.')
    nas: str = Field("", max_length=253, description='All live sessions at this NAS. "": not by NAS.')
    attributes: list[CoaAttribute] = Field(
        default=[], max_length=50, description="Of a change, and of nothing else: what it sets."
    )


Withdraws = Annotated[Access, Depends(ChangesTenant(Permission.SESSION_DISCONNECT, Effect.SESSIONS, Effect.WORK))]


@router.get("", operation_id="listCoaRequests")
def list_coa_requests(
    access: Reads,
    paging: Annotated[OrderedPaging, Depends(sorted_by(ORDERS))],
    state: Annotated[list[CoaState] | None, Query()] = None,
    session: Annotated[RowNumber | None, Query(description="About the session of this id.")] = None,
    mac: Mac = "",
    user: User = "",
    reason: Annotated[CoaReason | None, Query(description="For this reason.")] = None,
    redecision: Annotated[RowNumber | None, Query(description="That follow from the re-decision of this id.")] = None,
) -> Page[CoaRequest]:
    """Those that wait and those that are over. A page may be short and yet have a `next`, where rare ones are looked
    for among many."""
    with access.read() as opened:
        found = coa_requests.search_requests(
            opened,
            tenant_id=access.tenant_id,
            states=tuple(state or ()),
            row=session,
            mac=mac,
            user=user,
            reason=reason or "",
            redecision=redecision,
            span=paging.span,
        )
        return paging.ordered(found.rows, shown_request, searched=found.searched)


@router.post("", status_code=202, operation_id="createCoaRequests")
def create_coa_requests(access: Asks, body: CoaRequestsInput) -> CreatedCoaRequests:
    """Ask NASes about live sessions: to end them, to have their devices authenticate again, to bounce their ports, or
    to change them until their next authentication. A change takes `policy.publish` as well."""
    _require_kind(access, body.kind)
    given: dict[str, Any] = body.model_dump(exclude={"session", "attributes"})
    attributes = [each.model_dump(exclude_none=True) for each in body.attributes]
    with access.change() as change, body_references():
        asked = coa_requests.ask(
            change.session,
            actor=access.actor,
            tenant_id=access.tenant_id,
            row=body.session,
            attributes=attributes,
            **given,
        )
        return change.answer(CreatedCoaRequests(items=[shown_request(row) for row in asked]))


@router.get("/{request}", operation_id="getCoaRequest")
def get_coa_request(access: Reads, request: RowId) -> CoaRequest:
    with access.read() as session:
        return shown_request(coa_requests.require(session, tenant_id=access.tenant_id, request_id=request))


@router.post("/{request}/retry", status_code=202, operation_id="retryCoaRequest")
def retry_coa_request(access: Asks, request: RowId) -> CoaRequest:
    """Ask the same anew where it came to nothing; the answer is the new request."""
    with access.change() as change:
        row = coa_requests.require(change.session, tenant_id=access.tenant_id, request_id=request)
        _require_kind(access, row.kind)
        row = coa_requests.retry(change.session, actor=access.actor, tenant_id=access.tenant_id, request_id=request)
        change.located(row.id, at="coa-requests")
        return change.answer(shown_request(row))


@router.post("/{request}/withdraw", operation_id="cancelCoaRequest")
def withdraw_coa_request(access: Withdraws, request: RowId) -> CoaRequest:
    """Send no more of it."""
    with access.change() as change:
        row = coa_requests.withdraw(change.session, actor=access.actor, tenant_id=access.tenant_id, request_id=request)
        return change.answer(shown_request(row))


def _require_kind(access: Access, kind: str) -> None:
    """What a change gives a device is otherwise for rules to say."""
    if kind == "change":
        access.require(Permission.POLICY_PUBLISH)
