"""Asking a NAS about live sessions (RFC 5176): end one, have its device authenticate again, bounce its port, change it.

The answer is the NAS's: it comes later, and stands in the request's row.
"""

from collections.abc import Mapping, Sequence
from typing import Any, TypedDict, Unpack, cast

from sqlalchemy.orm import Session

from nac.audit import service as audit
from nac.cells import service as cells
from nac.clock import utc_now
from nac.coa_requests import queueing, repository
from nac.coa_requests.queueing import WAITING
from nac.coa_requests.repository import ORDERS as ORDERS
from nac.db.orders import Span
from nac.db.seeking import Sought
from nac.dictionary import from_json
from nac.errors import Conflict, InvalidInput, Mistakes, NotFound
from nac.ids import TenantId
from nac.models import CoaRequest
from nac.models.coa_request import COA_STATES, CoaKind
from nac.nases import service as nases
from nac.sessions import service as sessions
from nac.validation import require_mac

# Of one call. Who wants more narrows it down, and asks again.
MOST_SESSIONS = 1_000


class CoaRequestNotFound(NotFound):
    """There is no such request to a NAS."""


class NoLiveSession(Conflict):
    """No live session fits."""


def ask(
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
    """Ask this about each live session that fits: `row` its id, `mac` in any notation, `nas` as it is registered.

    `attributes` of a change: mappings of attribute, value and perhaps tag. Returns the requests, those that waited
    already included. Raises InvalidInput where nothing is given or an attribute is none of the cell's dictionaries,
    NoLiveSession, and Conflict where too much waits or more than MOST_SESSIONS sessions fit.
    """
    if row is None and not (mac or user or nas):
        raise InvalidInput("Nothing says which session.", place="session", remedy="Give its id, a MAC, user or NAS.")
    if (kind == "change") != bool(attributes):
        raise InvalidInput("A change has attributes, and nothing else has.", place="attributes")
    _require_sendable(session, tenant_id, attributes)
    rows = _rows(session, tenant_id, row=row, mac=mac, user=user, nas=nas)
    ids = queueing.queue_for_sessions(
        session,
        tenant_id=tenant_id,
        rows=rows,
        kind=kind,
        reason=queueing.REQUESTED,
        asked_by=actor,
        attributes=attributes,
    )
    asked = repository.list_by_ids(session, tenant_id, ids)
    after = {"kind": kind, "requests": [request.id for request in asked]}
    given = {"session": row, "mac": mac, "user": user, "nas": nas}
    target = ", ".join(f"{name} {value}" for name, value in given.items() if value)
    audit.append(session, actor=actor, action=f"session.{kind}", target=target, tenant_id=tenant_id, after=after)
    return asked


def _rows(session: Session, tenant_id: TenantId, *, row: int | None, mac: str, user: str, nas: str) -> Sequence[int]:
    if row is not None:
        # That there is none is told apart from that it has ended.
        sessions.get_session(session, tenant_id=tenant_id, row=row)
    found = sessions.list_sessions(
        session, tenant_id=tenant_id, row=row, mac=mac, user=user, nas=nas, limit=MOST_SESSIONS + 1
    )
    rows = [shown.row.id for shown in found]
    if not rows:
        raise NoLiveSession("No live session fits.", place="session", remedy="They are listed by: ./admit session list")
    if len(rows) > MOST_SESSIONS:
        raise Conflict(f"More than {MOST_SESSIONS} sessions fit.", place="session", remedy="Narrow it down.")
    return rows


def _require_sendable(session: Session, tenant_id: TenantId, attributes: Sequence[Mapping[str, Any]]) -> None:
    if not attributes:
        return
    content = cells.load_dictionary(session, tenant_id=tenant_id)
    if content is None:
        raise Conflict("The cell has not told which attributes it knows.", remedy="Ask again when it is up.")
    dictionary = from_json(content)
    mistakes = Mistakes()
    for index, each in enumerate(attributes):
        with mistakes.noted():
            try:
                dictionary.check(str(each["attribute"]), str(each["value"]), each.get("tag"))
            except (KeyError, ValueError) as exc:
                raise InvalidInput(str(exc), place=f"attributes[{index}]") from exc
    mistakes.refuse()


class Wanted(TypedDict, total=False):
    """What is given must all fit."""

    states: Sequence[str]
    # Id of a session.
    row: int | None
    # In any notation.
    mac: str
    user: str
    # As it is registered or, where it is not, says of itself.
    nas: str
    reason: str
    # What it follows from.
    redecision: int | None


def list_requests(
    session: Session, *, tenant_id: TenantId, span: Span | None = None, **wanted: Unpack[Wanted]
) -> Sequence[CoaRequest]:
    """The newest first, unless `span` says otherwise. Raises InvalidInput, and NasNotFound of one that there is not."""
    return _search(session, tenant_id, span or ORDERS.first(), in_full=True, **wanted).rows


def search_requests(
    session: Session, *, tenant_id: TenantId, span: Span, **wanted: Unpack[Wanted]
) -> Sought[CoaRequest]:
    """As `list_requests`, for as long as one answer may take (nac.db.seeking)."""
    return _search(session, tenant_id, span, in_full=False, **wanted)


def _search(
    session: Session, tenant_id: TenantId, span: Span, *, in_full: bool, **wanted: Unpack[Wanted]
) -> Sought[CoaRequest]:
    states, mac, nas = wanted.get("states", ()), wanted.get("mac", ""), wanted.get("nas", "")
    if unknown := [state for state in states if state not in COA_STATES]:
        raise InvalidInput(f"{unknown[0]!r} is no state.", place="state", remedy=f"Use {', '.join(COA_STATES)}.")
    given: dict[str, Any] = {
        "session_row": wanted.get("row"),
        "mac": mac and require_mac(mac),
        "reason": wanted.get("reason"),
        "redecision_id": wanted.get("redecision"),
    }
    equal = {name: value for name, value in given.items() if value not in (None, "")}

    def page(said: str = "") -> Sought[CoaRequest]:
        user = wanted.get("user", "")
        return repository.search(
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


def require(session: Session, *, tenant_id: TenantId, request_id: int) -> CoaRequest:
    """Raises CoaRequestNotFound."""
    found = repository.list_by_ids(session, tenant_id, [request_id])
    if not found:
        raise _not_found(request_id)
    return found[0]


def retry(session: Session, *, actor: str, tenant_id: TenantId, request_id: int) -> CoaRequest:
    """Ask the same anew; returns the new request. Raises CoaRequestNotFound, NoLiveSession where its session has ended,
    and Conflict where it waits still, or was done."""
    request = require(session, tenant_id=tenant_id, request_id=request_id)
    if request.state in (*WAITING, "acknowledged"):
        raise Conflict(f"Request {request_id} is {request.state}: there is nothing to ask again.", place="request")
    asked = ask(
        session,
        actor=actor,
        tenant_id=tenant_id,
        kind=cast(CoaKind, request.kind),
        row=request.session_row,
        attributes=request.attributes,
    )
    return asked[0]


def withdraw(session: Session, *, actor: str, tenant_id: TenantId, request_id: int) -> CoaRequest:
    """No further packet of it is sent. Raises CoaRequestNotFound, and Conflict where it has ended."""
    request = repository.lock(session, tenant_id, request_id)
    if request is None:
        raise _not_found(request_id)
    if request.state not in WAITING:
        raise Conflict(f"Request {request_id} is {request.state} already.", place="request")
    before, request.state = request.state, "withdrawn"
    request.ended_at, request.detail = utc_now(), f"Withdrawn by {actor}."
    session.flush()
    audit.append(
        session,
        actor=actor,
        action="coa.withdraw",
        target=str(request.id),
        tenant_id=tenant_id,
        before={"state": before},
        after={"state": request.state},
    )
    return request


def _not_found(request_id: int) -> CoaRequestNotFound:
    return CoaRequestNotFound(
        f"There is no request {request_id}.", place="request", remedy="They are listed by: ./admit coa list"
    )
