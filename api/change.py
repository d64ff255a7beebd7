"""One change: what its answer says of it, and that it is done once however often it is asked for."""

import hashlib
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import BoundedSemaphore
from typing import Annotated, Any, TypeVar
from urllib.parse import urlencode
from uuid import UUID

from fastapi import Header, Request, Response
from pydantic import BaseModel
from sqlalchemy import event
from sqlalchemy.orm import Session

from api.application_state import get_signing
from api.thread_limits import release_share
from nac.accounts.owners import Owner
from nac.audit import service as audit
from nac.audit.service import Origin
from nac.cells import service as cells
from nac.db import Scope, TenantScope, session_scope
from nac.errors import AdmitError, NotLiveYet, TenantHasNoCell
from nac.idempotency import service as idempotency
from nac.idempotency.service import KeyedRequest, PendingChange, StoredResponse
from nac.ids import TenantId

# Promise 5 of ARCHITECTURE.md is one second: longer means that the cell is down, and the change is live when it is up.
_LIVE_TIMEOUT_SECONDS = 5.0
_MAX_ETAGS = 20
# A state, and behind a dash what is observed (`etag`).
_ETAG = re.compile(r'"([^"-]*)(?:-[^"-]*)?"')
# Each holds one of 40 threads; the others are as many as there are connections to the database. Who comes beyond them
# is answered at once, so that a cell that is away holds up nobody who asks for something else.
MAX_WAITERS = 30
_waiter_permits = BoundedSemaphore(MAX_WAITERS)
_POSITION_HEADER, _LIVE_HEADER = "Admit-Position", "Admit-Live"
_UNCOMPARED_REASONS = {
    201: "This makes something new, whatever there is.",
    202: "This begins something, whatever there is.",
}
# Kept with an answer's headers, and shown to nobody: whose cell is asked when it is given again.
_TENANT_KEY = "tenant"

Body = TypeVar("Body", bound=BaseModel)


class IdempotentReplay(Exception):
    """The change was done when it was asked for first."""

    def __init__(self, answer: StoredResponse, *, wait: bool) -> None:
        super().__init__()
        self.answer = answer
        self.wait = wait


class NotModified(Exception):
    """The asker has what there is to see already (RFC 9110 13.1.2)."""

    def __init__(self, tag: str) -> None:
        super().__init__()
        self.tag = tag


class HasChanged(AdmitError):
    """It has been changed meanwhile."""

    status = 412


class CannotCompare(AdmitError):
    """There is nothing here that If-Match could be compared with."""

    status = 412


def require_no_if_match(request: Request, why: str) -> None:
    """Raises CannotCompare: whoever asks for it does not mean to change what somebody else has changed meanwhile
    (RFC 9110 13.1.1). `why`: what is asked for instead, in a sentence."""
    if _read_etags(request, "if-match") not in (None, ["*"]):
        raise CannotCompare(why, remedy="Leave If-Match out.")


def explain_no_if_match(status: int) -> str:
    """Of what a change that compares nothing is answered with."""
    return _UNCOMPARED_REASONS.get(status, "This is done whatever there is.")


async def compute_request_digest(
    request: Request,
    idempotency_key: Annotated[
        str | None,
        Header(
            description="A UUID, say: the change is done once, however often it is asked for.",
            json_schema_extra={"minLength": 1, "maxLength": idempotency.MAX_KEY_LENGTH, "pattern": "^[ -~]+$"},
        ),
    ] = None,
) -> bytes:
    """Of method, address and body; b"" where no key asks for it."""
    if idempotency_key is None:
        return b""
    asked = f"{request.method} {request.url.path}?{request.url.query}\0".encode()
    return hashlib.sha256(asked + await request.body()).digest()


@dataclass(slots=True)
class Change:
    """A transaction that is open, and what its answer will be."""

    session: Session
    request: Request
    response: Response
    # Whose cell is to decide by it.
    tenant_id: TenantId | None
    body: bytes | None = None
    # Whether the route has looked at `If-Match`.
    compared: bool = False
    # Where its asker has named it.
    named: KeyedRequest | None = None
    # Of a change that commits in between: what was made when it was asked for first, by a process that died.
    made_id: UUID | None = None

    @property
    def has_if_match(self) -> bool:
        """Whether its asker says of which state it is. What takes long is locked from the start only then."""
        return "if-match" in self.request.headers

    def record_created(self, made_id: UUID) -> None:
        """Before a commit in between."""
        if self.named is not None:
            idempotency.record_created_id(self.session, self.named, made_id)

    def require_match(self, current: BaseModel | None) -> None:
        """Raises HasChanged where `If-Match` names another state than this one, which is locked, or any while there is
        nothing (RFC 9110 13.1.1)."""
        self.compared = True
        tags = _read_etags(self.request, "if-match")
        if tags is not None and current is None:
            raise HasChanged("There is none.", remedy="Leave If-Match out to make one.")
        if (
            tags is not None
            and current is not None
            and tags != ["*"]
            and _extract_state(compute_etag(current)) not in map(_extract_state, tags)
        ):
            raise HasChanged(remedy="Read it again, and decide anew.")

    def answer(self, model: Body, *, state: BaseModel | None = None) -> Body:
        """`state` is how what was changed is shown, where the answer is something else or tells more."""
        self.body = model.model_dump_json().encode()
        self.response.headers["ETag"] = compute_etag(model if state is None else state)
        return model

    def located(self, *names: object, at: str = "", **query: str) -> None:
        """Set `Location` to what was made: below `at` of the tenant or MSP, or else below the path of the request.
        An `at` that begins with a slash is a path of its own. Empty values of `query` are left out."""
        path = self.request.url.path
        base = at if at.startswith("/") else f"{'/'.join(path.split('/')[:4])}/{at}" if at else path
        given = {name: value for name, value in query.items() if value}
        where = "/".join((base, *map(str, names)))
        self.response.headers["Location"] = f"{where}?{urlencode(given)}" if given else where

    def set_empty_response(self) -> None:
        self.body = b""


class ObservedModel(BaseModel):
    """What shows beside what people and programs say of it also what cells and the worker see."""

    def observed_fields(self) -> set[str] | dict[str, Any]:
        """Members that change with no decision of anybody; of one that has some, which (as pydantic excludes them)."""
        raise NotImplementedError


def compute_etag(model: BaseModel) -> str:
    """Of all that is shown. What is observed is behind a dash: that a device was seen again stops nobody's change."""
    if not isinstance(model, ObservedModel):
        return f'"{_hash_text(model.model_dump_json())}"'
    return (
        f'"{_hash_text(model.model_dump_json(exclude=model.observed_fields()))}-{_hash_text(model.model_dump_json())}"'
    )


def require_modified(request: Request, tag: str) -> None:
    """Raises NotModified where `If-None-Match` names what would be shown. Tags are compared weakly, since caches and
    proxies that pack answers make weak ones of them."""
    tags = _read_etags(request, "if-none-match") if request.method in ("GET", "HEAD") else None
    if tags is not None and ("*" in tags or tag in [each.removeprefix("W/") for each in tags]):
        raise NotModified(tag)


def _hash_text(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _read_etags(request: Request, header: str) -> list[str] | None:
    if header not in request.headers:
        return None
    # A list may come in several fields (RFC 9110 5.3).
    wanted = ",".join(request.headers.getlist(header))
    return [tag.strip() for tag in wanted.split(",", _MAX_ETAGS)[:_MAX_ETAGS]]


def _extract_state(tag: str) -> str | None:
    """None of what is no strong tag."""
    found = _ETAG.fullmatch(tag)
    return found[1] if found else None


@contextmanager
def open_change(
    request: Request,
    response: Response,
    *,
    scope: Scope,
    owner: Owner,
    asker: str,
    origin: Origin,
    digest: bytes,
    wait: bool,
) -> Iterator[Change]:
    """Commits at exit. Of a tenant's change the answer tells when its cell decides by it: `Admit-Position`, and
    `Admit-Live`, which `wait` waits for. Raises DoneBefore."""
    named = KeyedRequest(owner, asker, request.headers["idempotency-key"], digest) if digest else None
    sealer = get_signing(request).sealer
    with _open_change_session(scope, named) as session:
        audit.note_origin(session, origin)
        begun = PendingChange() if named is None else idempotency.begin_change(session, named, unseal=sealer.open)
        if isinstance(begun, StoredResponse):
            raise IdempotentReplay(begun, wait=wait)
        change = Change(session, request, response, owner.tenant_id, named=named, made_id=begun.made_id)
        yield change
        assert change.body is not None, "the route gives no answer"
        status = response.status_code or request.scope["route"].status_code or 200
        if not change.compared:
            require_no_if_match(request, explain_no_if_match(status))
        session.flush()
        if change.tenant_id is not None:
            response.headers[_POSITION_HEADER] = cells.current_xact(session)
        if named is not None:
            of_tenant = {} if change.tenant_id is None else {_TENANT_KEY: str(change.tenant_id)}
            answer = StoredResponse(status, dict(response.headers) | of_tenant, change.body)
            idempotency.finish_change(session, named, answer, seal=sealer.seal)
    if change.tenant_id is not None:
        release_share(request)
        response.headers[_LIVE_HEADER] = _report_live(change.tenant_id, response.headers[_POSITION_HEADER], wait=wait)


@contextmanager
def _open_change_session(scope: Scope, named: KeyedRequest | None) -> Iterator[Session]:
    """Where a named change has committed in between (nac.db.commit_intent) and then fails, its name is free again."""
    committed = False

    def note(_: Session) -> None:
        nonlocal committed
        committed = True

    try:
        with session_scope(scope) as session:
            event.listen(session, "after_commit", note)
            yield session
    except Exception:
        if named is not None and committed:
            with session_scope(scope) as session:
                idempotency.release_key(session, named)
        raise


def _report_live(tenant_id: TenantId, xact: str, *, wait: bool) -> str:
    waits = wait and _waiter_permits.acquire(blocking=False)
    seconds = _LIVE_TIMEOUT_SECONDS if waits else 0.0
    try:
        cells.wait_until_live(TenantScope(tenant_id), tenant_id=tenant_id, xact=xact, timeout_seconds=seconds)
    except (NotLiveYet, TenantHasNoCell):
        return "false"
    finally:
        if waits:
            _waiter_permits.release()
    return "true"


async def render_not_modified(request: Request, exc: Exception) -> Response:
    """That there is nothing new (an exception handler)."""
    assert isinstance(exc, NotModified)
    return Response(status_code=304, headers={"ETag": exc.tag})


def render_replay(request: Request, exc: Exception) -> Response:
    """As it was answered first, but for what the tenant's cell has come to since (an exception handler)."""
    assert isinstance(exc, IdempotentReplay)
    headers = {**exc.answer.headers, "Idempotency-Replayed": "true"}
    if tenant_id := headers.pop(_TENANT_KEY, ""):
        headers[_LIVE_HEADER] = _report_live(
            TenantId(UUID(tenant_id)), headers[_POSITION_HEADER.lower()], wait=exc.wait
        )
    kind = "application/json" if exc.answer.body else None
    return Response(exc.answer.body, exc.answer.status, headers, media_type=kind)
