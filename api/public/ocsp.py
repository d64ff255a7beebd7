"""OCSP over HTTP (RFC 6960 A.1, RFC 5019). A request is the body of a POST, or base64 in the path of a GET.

OCSP is a separate ASGI application, because FastAPI is slower. The application answers thousands of requests a second
from memory.
"""

import base64
import binascii
import logging
from datetime import UTC, datetime
from email.utils import format_datetime
from functools import lru_cache
from time import monotonic
from uuid import UUID

from anyio import CapacityLimiter, fail_after, to_thread
from starlette.types import Receive, Scope, Send

from api.bodies import BodyTooLarge, BodyTooSlow, read_body
from api.errors import build_problem
from nac.certificates.ocsp_responder import OcspResponder, OcspResponse, refusal_response
from nac.kit.clock import utc_now
from nac.kit.db import limit_waiting
from nac.kit.errors import AdmitError
from pki.ocsp import MAX_REQUEST_BYTES

_log = logging.getLogger("admit.ocsp")

_MEDIA_TYPE = (b"content-type", b"application/ocsp-response")
_CONNECTION_CLOSE = (b"connection", b"close")
_NO_STORE = ((b"cache-control", b"no-store"),)
# RFC 5019 6.2. Lifetime in caches, shorter than the response's validity, because a cache hides a revocation for this
# time.
_CACHE_CONTROL = (b"cache-control", b"max-age=300, public, no-transform, must-revalidate")
# Length of an authority id. Ids of another length are rejected without caching.
_ID_CHARACTERS = len(str(UUID(int=0)))
_MAX_PATH_CHARACTERS = 2 * MAX_REQUEST_BYTES
_BODY_TIMEOUT_SECONDS = 5.0
# Number of threads that read from PostgreSQL, each with a connection.
_READER_THREADS = 6
# Maximum number of requests that wait for a reader. Further requests get `tryLater`.
_MAX_WAITING = 200
# Maximum wait of a request for a reader.
_MAX_WAITING_SECONDS = 5.0


class OcspEndpoint:
    """ASGI application for /ocsp."""

    def __init__(self, responder: OcspResponder, *, wait_seconds: float) -> None:
        """`wait_seconds` is the time that a response may wait for PostgreSQL."""
        self._responder = responder
        self._wait_seconds = wait_seconds
        self._readers = CapacityLimiter(_READER_THREADS)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        # "/ocsp/<authority>" and, for GET, "/<base64>"
        _, _, name, *rest = scope["path"].split("/", 3)
        method = scope["method"]
        authority_id = _parse_authority_id(name) if len(name) == _ID_CHARACTERS else None
        if authority_id is None:
            await _send_not_found(scope, receive, send)
        elif method == "POST" and not rest:
            await self._post(authority_id, scope, receive, send)
        elif method in ("GET", "HEAD"):
            request = _decode_request(rest[0]) if rest else None
            answer = (
                refusal_response("malformedRequest") if request is None else await self._answer(authority_id, request)
            )
            await _send_response(answer, scope, send)
        else:
            await _send_method_not_allowed(scope, receive, send)

    async def _post(self, authority_id: UUID, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            request = await read_body(scope, receive, most_octets=MAX_REQUEST_BYTES, seconds=_BODY_TIMEOUT_SECONDS)
        except (BodyTooLarge, BodyTooSlow) as exc:
            await _send_response(
                refusal_response("malformedRequest"), scope, send, status=exc.status, more=(_CONNECTION_CLOSE,)
            )
            return
        await _send_response(await self._answer(authority_id, request), scope, send)

    async def _answer(self, authority_id: UUID, request: bytes) -> OcspResponse:
        now = utc_now()
        try:
            answer = self._responder.recall(authority_id, request, now=now)
            if answer is not None:
                return answer
            if self._readers.statistics().tasks_waiting >= _MAX_WAITING:
                return refusal_response("tryLater")
            with fail_after(_MAX_WAITING_SECONDS):
                return await to_thread.run_sync(
                    self._read, authority_id, request, now, monotonic(), limiter=self._readers
                )
        except TimeoutError:
            return refusal_response("tryLater")
        except AdmitError as exc:
            _log.warning("cannot answer for authority %s: %s", authority_id, exc)
            return refusal_response("tryLater")
        except Exception:  # house-rule: callers get an OCSP error
            _log.exception("cannot answer for authority %s", authority_id)
            return refusal_response("internalError")

    def _read(self, authority_id: UUID, request: bytes, now: datetime, came_at: float) -> OcspResponse:
        with limit_waiting(self._wait_seconds, spent=monotonic() - came_at):
            return self._responder.answer(authority_id, request, now=now)


@lru_cache(maxsize=1024)
def _parse_authority_id(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None


def _decode_request(text: str) -> bytes | None:
    """Decode the request. The server has already decoded percent signs (RFC 6960 A.1)."""
    if len(text) > _MAX_PATH_CHARACTERS:
        return None
    try:
        # Some clients omit the padding.
        return base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except (binascii.Error, ValueError):
        return None


@lru_cache(maxsize=1024)
def _format_date(moment: datetime) -> bytes:
    return format_datetime(moment.astimezone(UTC), usegmt=True).encode()


async def _send_response(
    answer: OcspResponse,
    scope: Scope,
    send: Send,
    *,
    status: int = 200,
    more: tuple[tuple[bytes, bytes], ...] = (),
) -> None:
    headers = [_MEDIA_TYPE, (b"content-length", str(len(answer.der)).encode()), *more]
    if answer.this_update is None or answer.next_update is None:
        headers += _NO_STORE
    else:
        etag = f'"{answer.etag}"'.encode()
        headers += [
            _CACHE_CONTROL,
            (b"etag", etag),
            (b"last-modified", _format_date(answer.this_update)),
            (b"expires", _format_date(answer.next_update)),
        ]
        if scope["method"] != "POST" and any(
            name == b"if-none-match" and etag in value for name, value in scope["headers"]
        ):
            await send({"type": "http.response.start", "status": 304, "headers": headers[2:]})
            await send({"type": "http.response.body"})
            return
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else answer.der})


async def _send_not_found(scope: Scope, receive: Receive, send: Send) -> None:
    reply = build_problem(status=404, code="not-found", title="Not Found", detail="The path has no valid authority id.")
    await reply(scope, receive, send)


async def _send_method_not_allowed(scope: Scope, receive: Receive, send: Send) -> None:
    reply = build_problem(
        status=405,
        code="method-not-allowed",
        title="Method Not Allowed",
        detail="Send the OCSP request as the body of a POST, or as base64 in the path of a GET.",
        headers={"Allow": "GET, HEAD, POST"},
    )
    await reply(scope, receive, send)
