"""Requests to NASes about live sessions (RFC 5176): disconnect, reauthenticate, bounce, change.

A request waits in a queue. The agent stores the result later in the row of the request.
"""

from collections.abc import Mapping, Sequence
from typing import Any, TypedDict, Unpack, cast

from sqlalchemy.orm import Session

from nac.core.audit import service as audit
from nac.engine.dictionary import from_json
from nac.kit.advice import Advice
from nac.kit.clock import utc_now
from nac.kit.db.queries import BoundedPage
from nac.kit.db.sort_orders import PageSpan
from nac.kit.errors import Conflict, InvalidInput, MistakeCollector, NotFound
from nac.kit.ids import TenantId
from nac.kit.validation import require_mac
from nac.models import CoaRequest
from nac.models.coa_request import COA_STATES, CoaKind
from nac.sessions import service as sessions
from nac.sessions.coa_requests import repository, request_queue
from nac.sessions.coa_requests.repository import ORDERS as ORDERS
from nac.sessions.coa_requests.request_queue import WAITING_STATES
from nac.tenancy.cells import service as cells
from nac.tenancy.nases import service as nases

# Maximum number of sessions in one call.
MAX_SESSIONS = 1_000


class CoaRequestNotFound(NotFound):
    """The request to a NAS does not exist."""


class NoLiveSession(Conflict):
    """No live session matches."""


def create_requests(
    session: Session,
    *,
    actor: str,
    tenant_id: TenantId,
    kind: CoaKind,
    row: int | None = None,
    mac: str = "",
    user: str = "",
    nas: str = "",
    attributes: Sequence[Mapping[str, Any]] = (),
) -> Sequence[CoaRequest]:
    """Queue a request for each matching live session.

    Returns the requests, including matching requests that were already waiting. `row` is the id of a session. `mac` is
    in any notation. `nas` is the name of a registered NAS. `attributes` are for the kind `change`; each attribute is a
    mapping with `attribute`, `value` and an optional `tag`.

    Raises InvalidInput without a filter, or if the cell's dictionaries reject an attribute. Raises
    NoLiveSession if no session matches. Raises Conflict if the queue is full, or if more than MAX_SESSIONS sessions
    match.
    """
    if row is None and not (mac or user or nas):
        raise InvalidInput(
            "A session is required.",
            place="session",
            remedy="Set at least one of these: session id, MAC address, user, NAS.",
        )
    if (kind == "change") != bool(attributes):
        raise InvalidInput(
            "A request of kind `change` needs at least one attribute. Requests of other kinds have no attributes.",
            place="attributes",
        )
    _require_sendable(session, tenant_id, attributes)
    rows = _find_session_rows(session, tenant_id, row=row, mac=mac, user=user, nas=nas)
    ids = request_queue.queue_session_requests(
        session,
        tenant_id=tenant_id,
        rows=rows,
        kind=kind,
        reason=request_queue.REQUESTED_REASON,
        requested_by=actor,
        attributes=attributes,
    )
    requests = repository.list_by_ids(session, tenant_id, ids)
    after = {"kind": kind, "requests": [request.id for request in requests]}
    filters = {"session": row, "mac": mac, "user": user, "nas": nas}
    target = ", ".join(f"{name} {value}" for name, value in filters.items() if value)
    audit.append(session, actor=actor, action=f"session.{kind}", target=target, tenant_id=tenant_id, after=after)
    return requests


def _find_session_rows(
    session: Session, tenant_id: TenantId, *, row: int | None, mac: str, user: str, nas: str
) -> Sequence[int]:
    if row is not None:
        # Raises SessionNotFound for an unknown session, as opposed to an ended session.
        sessions.get_session(session, tenant_id=tenant_id, row=row)
    found = sessions.list_sessions(
        session, tenant_id=tenant_id, row=row, mac=mac, user=user, nas=nas, limit=MAX_SESSIONS + 1
    )
    rows = [shown.row.id for shown in found]
    if not rows:
        raise NoLiveSession("No live session matches.", place="session", remedy=Advice("List sessions", "listSessions"))
    if len(rows) > MAX_SESSIONS:
        raise Conflict(f"More than {MAX_SESSIONS} sessions match.", place="session", remedy="Narrow the filter.")
    return rows


def _require_sendable(session: Session, tenant_id: TenantId, attributes: Sequence[Mapping[str, Any]]) -> None:
    if not attributes:
        return
    content = cells.load_dictionary(session, tenant_id=tenant_id)
    if content is None:
        raise Conflict("The cell has not uploaded its attribute dictionaries.", remedy="Try again when the cell is up.")
    dictionary = from_json(content)
    mistakes = MistakeCollector()
    for index, each in enumerate(attributes):
        with mistakes.noted():
            try:
                dictionary.check(str(each["attribute"]), str(each["value"]), each.get("tag"))
            except (KeyError, ValueError) as exc:
                raise InvalidInput(str(exc), place=f"attributes[{index}]") from exc
    mistakes.refuse()


class CoaRequestFilter(TypedDict, total=False):
    """Filter of requests. All values of the filter must match."""

    states: Sequence[str]
    # Id of the session.
    row: int | None
    # MAC address in any notation.
    mac: str
    user: str
    # Name of a registered NAS, or identifier of an unregistered NAS.
    nas: str
    reason: str
    # Id of the re-decision that caused the request.
    redecision: int | None


def list_requests(
    session: Session, *, tenant_id: TenantId, span: PageSpan | None = None, **wanted: Unpack[CoaRequestFilter]
) -> Sequence[CoaRequest]:
    """List requests, by default newest first. Raises InvalidInput, or NasNotFound for an unknown NAS."""
    return _search_requests(session, tenant_id, span or ORDERS.first(), in_full=True, **wanted).rows


def search_requests(
    session: Session, *, tenant_id: TenantId, span: PageSpan, **wanted: Unpack[CoaRequestFilter]
) -> BoundedPage[CoaRequest]:
    """Search requests like `list_requests`. The page ends early when the time for one response is over."""
    return _search_requests(session, tenant_id, span, in_full=False, **wanted)


def _search_requests(
    session: Session, tenant_id: TenantId, span: PageSpan, *, in_full: bool, **wanted: Unpack[CoaRequestFilter]
) -> BoundedPage[CoaRequest]:
    states, mac, nas = wanted.get("states", ()), wanted.get("mac", ""), wanted.get("nas", "")
    if unknown := [state for state in states if state not in COA_STATES]:
        raise InvalidInput(
            f"Unknown state {unknown[0]!r}.", place="state", remedy=f"Use one of: {', '.join(COA_STATES)}."
        )
    columns: dict[str, Any] = {
        "session_row": wanted.get("row"),
        "mac": mac and require_mac(mac),
        "reason": wanted.get("reason"),
        "redecision_id": wanted.get("redecision"),
    }
    equal = {name: value for name, value in columns.items() if value not in (None, "")}

    def page(said: str = "") -> BoundedPage[CoaRequest]:
        user = wanted.get("user", "")
        return repository.search_requests(
            session, tenant_id, states=states, equal=equal, user=user, nas_said=said, span=span, in_full=in_full
        )

    if not nas:
        return page()
    try:
        equal["nas_id"] = nases.require_nas(session, tenant_id=tenant_id, reference=nas).id
    except nases.NasNotFound:
        found = page(nas)
        if not found.rows and found.searched is None and span.after is None:
            raise
        return found
    return page()


def require_request(session: Session, *, tenant_id: TenantId, request_id: int) -> CoaRequest:
    """Return the request with this id. Raises CoaRequestNotFound."""
    requests = repository.list_by_ids(session, tenant_id, [request_id])
    if not requests:
        raise _not_found_error(request_id)
    return requests[0]


def retry_request(session: Session, *, actor: str, tenant_id: TenantId, request_id: int) -> CoaRequest:
    """Queue a copy of a request, and return the copy.

    Raises CoaRequestNotFound. Raises NoLiveSession if the session has ended. Raises Conflict if the request still
    waits, or if it succeeded.
    """
    request = require_request(session, tenant_id=tenant_id, request_id=request_id)
    if request.state in (*WAITING_STATES, "acknowledged"):
        raise Conflict(
            f"Request {request_id} cannot be retried. The state of the request is {request.state}.", place="request"
        )
    requests = create_requests(
        session,
        actor=actor,
        tenant_id=tenant_id,
        kind=cast(CoaKind, request.kind),
        row=request.session_row,
        attributes=request.attributes,
    )
    return requests[0]


def cancel_request(session: Session, *, actor: str, tenant_id: TenantId, request_id: int) -> CoaRequest:
    """Cancel a request. The agent then sends no further packets for the request.

    Raises CoaRequestNotFound, or Conflict if the request has ended.
    """
    request = repository.lock_request(session, tenant_id, request_id)
    if request is None:
        raise _not_found_error(request_id)
    if request.state not in WAITING_STATES:
        raise Conflict(f"Request {request_id} has ended. The state of the request is {request.state}.", place="request")
    before, request.state = request.state, "withdrawn"
    request.ended_at, request.detail = utc_now(), f"Withdrawn by {actor}."
    session.flush()
    audit.append(
        session,
        actor=actor,
        action="coa.cancel",
        target=str(request.id),
        tenant_id=tenant_id,
        before={"state": before},
        after={"state": request.state},
    )
    return request


def _not_found_error(request_id: int) -> CoaRequestNotFound:
    return CoaRequestNotFound(
        f"Unknown request {request_id}.", place="request", remedy=Advice("List requests", "listCoaRequests")
    )
