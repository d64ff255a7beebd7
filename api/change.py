"""Transactions of changes, with `If-Match`, ETags, idempotency keys and the response headers of a change."""

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
from nac.core import idempotency
from nac.core.access.grants import Owner
from nac.core.audit import service as audit
from nac.core.audit.service import RequestOrigin
from nac.core.idempotency import KeyedRequest, PendingChange, StoredResponse
from nac.kit.db import Scope, TenantScope, session_scope
from nac.kit.errors import AdmitError, NotLiveYet, TenantHasNoCell
from nac.kit.ids import TenantId
from nac.tenancy.cells import service as cells

# A change is live within one second (ARCHITECTURE.md, promise 5). If a change takes longer, the cell is down.
_LIVE_TIMEOUT_SECONDS = 5.0
_MAX_ETAGS = 20
# An ETag: a digest of the state and, after a dash, a digest that includes observed fields (`compute_etag`).
_ETAG = re.compile(r'"([^"-]*)(?:-[^"-]*)?"')
# Number of requests that can wait until their change is live, each in a thread. Further requests do not wait, so that
# an unreachable cell does not block other requests.
MAX_WAITERS = 30
_waiter_permits = BoundedSemaphore(MAX_WAITERS)
_POSITION_HEADER, _LIVE_HEADER = "Admit-Position", "Admit-Live"
_UNCOMPARED_REASONS = {
    201: "`If-Match` is not supported on create.",
    202: "`If-Match` is not supported when starting a job.",
}
# Key of the tenant's id in the stored headers of a response. A replay uses the id to compute `Admit-Live`. Admit never
# sends this key to clients.
_TENANT_KEY = "tenant"

Body = TypeVar("Body", bound=BaseModel)


class IdempotentReplay(Exception):
    """An earlier request with this Idempotency-Key already made the change."""

    def __init__(self, answer: StoredResponse, *, wait: bool) -> None:
        super().__init__()
        self.answer = answer
        self.wait = wait


class NotModified(Exception):
    """The caller already has the current state (RFC 9110 13.1.2)."""

    def __init__(self, tag: str) -> None:
        super().__init__()
        self.tag = tag


class HasChanged(AdmitError):
    """The resource was changed in the meantime."""

    status = 412


class CannotCompare(AdmitError):
    """This operation does not support If-Match."""

    status = 412


def require_no_if_match(request: Request, why: str) -> None:
    """Raise CannotCompare if `If-Match` contains an ETag, because the operation compares no ETags (RFC 9110 13.1.1).

    `why` is the detail of CannotCompare.
    """
    if _read_etags(request, "if-match") not in (None, ["*"]):
        raise CannotCompare(why, remedy="Omit If-Match.")


def explain_no_if_match(status: int) -> str:
    """Return the detail of CannotCompare for an operation whose successful response has the status `status`."""
    return _UNCOMPARED_REASONS.get(status, "`If-Match` is not supported by this operation.")


async def compute_request_digest(
    request: Request,
    idempotency_key: Annotated[
        str | None,
        Header(
            description="Unique key, such as a UUID. Retries with the same key make the change only once.",
            json_schema_extra={"minLength": 1, "maxLength": idempotency.MAX_KEY_LENGTH, "pattern": "^[ -~]+$"},
        ),
    ] = None,
) -> bytes:
    """Return the digest of method, URL and body; b"" without an Idempotency-Key."""
    if idempotency_key is None:
        return b""
    asked = f"{request.method} {request.url.path}?{request.url.query}\0".encode()
    return hashlib.sha256(asked + await request.body()).digest()


@dataclass(slots=True)
class Change:
    """An open transaction of a change, with the request and the response."""

    session: Session
    request: Request
    response: Response
    # Tenant whose cell the change affects.
    tenant_id: TenantId | None
    body: bytes | None = None
    # Whether the route compared `If-Match`.
    compared: bool = False
    # The Idempotency-Key, if the request has one.
    named: KeyedRequest | None = None
    # Id of the created resource, if an earlier attempt committed the id before the API process died.
    made_id: UUID | None = None

    @property
    def has_if_match(self) -> bool:
        """Whether the request has `If-Match`. With `If-Match`, long operations lock the row from the start."""
        return "if-match" in self.request.headers

    def record_created(self, made_id: UUID) -> None:
        """Store the id of the created resource. Call this method before an intermediate commit."""
        if self.named is not None:
            idempotency.record_created_id(self.session, self.named, made_id)

    def require_match(self, current: BaseModel | None) -> None:
        """Compare `If-Match` with the state of the locked resource. `current` is None if the resource does not exist.

        Raises HasChanged if the ETags differ (RFC 9110 13.1.1).
        """
        self.compared = True
        tags = _read_etags(self.request, "if-match")
        if tags is not None and current is None:
            raise HasChanged("The resource does not exist.", remedy="To create the resource, omit If-Match.")
        if (
            tags is not None
            and current is not None
            and tags != ["*"]
            and _extract_state(compute_etag(current)) not in map(_extract_state, tags)
        ):
            raise HasChanged(remedy="Reload the resource and try again.")

    def answer(self, model: Body, *, state: BaseModel | None = None) -> Body:
        """Set the body and the ETag of the response.

        If the body is not the changed resource, pass the changed resource as `state`.
        """
        self.body = model.model_dump_json().encode()
        self.response.headers["ETag"] = compute_etag(model if state is None else state)
        return model

    def located(self, *names: object, at: str = "", **query: str) -> None:
        """Set `Location` to the path of the created resource.

        Without `at`, the path of the resource is the path of the request, followed by `names`. A relative `at` is below
        the path of the tenant or MSP, and `names` follow `at`.

        An `at` with a leading slash is an absolute path. Empty values of `query` are omitted.
        """
        path = self.request.url.path
        base = at if at.startswith("/") else f"{'/'.join(path.split('/')[:4])}/{at}" if at else path
        given = {name: value for name, value in query.items() if value}
        where = "/".join((base, *map(str, names)))
        self.response.headers["Location"] = f"{where}?{urlencode(given)}" if given else where

    def set_empty_response(self) -> None:
        self.body = b""


class ObservedModel(BaseModel):
    """Resource with observed fields, which change without a user's action, such as the state of a job."""

    def observed_fields(self) -> set[str] | dict[str, Any]:
        """Return the names of the fields that change without a user's action, for pydantic's argument `exclude`."""
        raise NotImplementedError


def compute_etag(model: BaseModel) -> str:
    """ETag of a resource.

    Fields that change without a user's action affect only the part after the dash, which `If-Match` ignores.
    """
    if not isinstance(model, ObservedModel):
        return f'"{_hash_text(model.model_dump_json())}"'
    return (
        f'"{_hash_text(model.model_dump_json(exclude=model.observed_fields()))}-{_hash_text(model.model_dump_json())}"'
    )


def require_modified(request: Request, tag: str) -> None:
    """Raise NotModified if `If-None-Match` contains the current ETag.

    The comparison ignores `W/`, because caches and compressing proxies change ETags to weak ETags.
    """
    tags = _read_etags(request, "if-none-match") if request.method == "GET" else None
    if tags is not None and ("*" in tags or tag in [each.removeprefix("W/") for each in tags]):
        raise NotModified(tag)


def _hash_text(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _read_etags(request: Request, header: str) -> list[str] | None:
    if header not in request.headers:
        return None
    # A list may span several header fields (RFC 9110 5.3).
    wanted = ",".join(request.headers.getlist(header))
    return [tag.strip() for tag in wanted.split(",", _MAX_ETAGS)[:_MAX_ETAGS]]


def _extract_state(tag: str) -> str | None:
    """Return the part of a strong ETag before the dash; None for a weak or malformed ETag."""
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
    origin: RequestOrigin,
    digest: bytes,
    wait: bool,
) -> Iterator[Change]:
    """Open the transaction of a change, which commits at the end of the block.

    A change of a tenant sets the headers `Admit-Position` and `Admit-Live`. With `wait`, the request waits until the
    change is live, 5 seconds at most. Raises IdempotentReplay.
    """
    named = KeyedRequest(owner, asker, request.headers["idempotency-key"], digest) if digest else None
    sealer = get_signing(request).sealer
    with _open_change_session(scope, named) as session:
        audit.set_origin(session, origin)
        begun = PendingChange() if named is None else idempotency.begin_change(session, named, unseal=sealer.open)
        if isinstance(begun, StoredResponse):
            raise IdempotentReplay(begun, wait=wait)
        change = Change(session, request, response, owner.tenant_id, named=named, made_id=begun.made_id)
        yield change
        assert change.body is not None, "the route sets no response"
        status = response.status_code or request.scope["route"].status_code or 200
        if not change.compared:
            require_no_if_match(request, explain_no_if_match(status))
        session.flush()
        if change.tenant_id is not None:
            response.headers[_POSITION_HEADER] = cells.get_current_xact(session)
        if named is not None:
            of_tenant = {} if change.tenant_id is None else {_TENANT_KEY: str(change.tenant_id)}
            answer = StoredResponse(status, dict(response.headers) | of_tenant, change.body)
            idempotency.finish_change(session, named, answer, seal=sealer.seal)
    if change.tenant_id is not None:
        release_share(request)
        response.headers[_LIVE_HEADER] = _report_live(change.tenant_id, response.headers[_POSITION_HEADER], wait=wait)


@contextmanager
def _open_change_session(scope: Scope, named: KeyedRequest | None) -> Iterator[Session]:
    """Open a transaction, and release the Idempotency-Key if the change fails after an intermediate commit.

    nac.kit.db.commit_intent makes intermediate commits.
    """
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
    """Respond with 304 (exception handler)."""
    assert isinstance(exc, NotModified)
    return Response(status_code=304, headers={"ETag": exc.tag})


def render_replay(request: Request, exc: Exception) -> Response:
    """Replay the first response with the current `Admit-Live` (exception handler)."""
    assert isinstance(exc, IdempotentReplay)
    headers = {**exc.answer.headers, "Idempotency-Replayed": "true"}
    if tenant_id := headers.pop(_TENANT_KEY, ""):
        headers[_LIVE_HEADER] = _report_live(
            TenantId(UUID(tenant_id)), headers[_POSITION_HEADER.lower()], wait=exc.wait
        )
    kind = "application/json" if exc.answer.body else None
    return Response(exc.answer.body, exc.answer.status, headers, media_type=kind)
