"""Errors as problem details (RFC 9457), the only place where the API renders them."""

import logging
from collections.abc import Mapping
from copy import copy
from http import HTTPStatus
from itertools import islice

from fastapi import FastAPI, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from sqlalchemy.exc import DBAPIError
from starlette.exceptions import HTTPException

from api.head_requests import list_allowed_methods
from api.remedies import replace_problem_commands
from api.validation_messages import describe_mistakes
from nac.bulk_rows import MAX_REPORTED
from nac.db.failures import translate
from nac.errors import AdmitError, problem_of

_log = logging.getLogger("admit.api")
# What the framework refuses: what is wrong, and what to do about it.
_FRAMEWORK_ERRORS: Mapping[int, tuple[str, str]] = {
    HTTPStatus.NOT_FOUND: (
        "There is nothing at this address.",
        "See its spelling; a slash at the end is one too many.",
    ),
    HTTPStatus.METHOD_NOT_ALLOWED: ("This address has other methods.", "Use one that Allow names."),
}
# Mistakes that are told in some ms: more of them beside what other requests wait for.
_MAX_INLINE_MISTAKES = 10


def build_problem(
    *, status: int, code: str, title: str, detail: str, headers: Mapping[str, str] | None = None, **members: object
) -> JSONResponse:
    """`members` are extensions (RFC 9457 3.2); empty ones are left out."""
    body = {"type": "about:blank", "title": title, "status": status, "detail": detail, "code": code}
    body |= {name: value for name, value in members.items() if value}
    return JSONResponse(body, status, headers, media_type="application/problem+json")


def build_retry_headers(exc: AdmitError) -> dict[str, str]:
    """RFC 9110 10.2.3; none where waiting does not help."""
    return {} if exc.retry_after_seconds is None else {"Retry-After": str(exc.retry_after_seconds)}


def render_error(exc: AdmitError) -> JSONResponse:
    headers = build_retry_headers(exc)
    if exc.status == HTTPStatus.UNAUTHORIZED:
        # RFC 6750 3.
        headers["WWW-Authenticate"] = 'Bearer realm="admit"'
    return build_problem(status=exc.status, headers=headers, **replace_problem_commands(problem_of(exc)))


def redact_error(request: Request, exc: AdmitError) -> AdmitError:
    """As the caller may read it. Of what is no fault of his a stranger learns the kind alone: the rest names databases,
    files and key stores, and is for the log.
    """
    if exc.status < HTTPStatus.INTERNAL_SERVER_ERROR:
        return exc
    # Not the path itself, in which a link carries its secret.
    route = getattr(request.scope.get("route"), "path", "?")
    _log.error("%s %s: %s", request.method, route, exc)
    if not request.app.state.for_strangers:
        return exc
    plain = copy(exc)
    plain.detail, plain.place, plain.remedy = exc.title, "", "Try again later."
    return plain


# Those that FastAPI calls are `async`, since they do no I/O: each other one waits for a thread, and so would the answer
# that there is none.
async def _handle_admit_error(request: Request, exc: Exception) -> JSONResponse:
    assert isinstance(exc, AdmitError)
    return render_error(redact_error(request, exc))


async def _handle_driver_error(request: Request, exc: Exception) -> JSONResponse:
    """A driver error that did not pass through `session_scope`."""
    assert isinstance(exc, DBAPIError)
    return await _handle_admit_error(request, translate(exc))


async def _handle_invalid_request(request: Request, exc: Exception) -> JSONResponse:
    assert isinstance(exc, RequestValidationError)
    if len(exc.errors()) <= _MAX_INLINE_MISTAKES:
        return _render_mistakes(request, exc)
    return await run_in_threadpool(_render_mistakes, request, exc)


def _render_mistakes(request: Request, exc: RequestValidationError) -> JSONResponse:
    field = getattr(request.scope.get("route"), "body_field", None)
    expects = None if field is None else field.field_info.annotation
    # Each is looked into: of a body of nothing but mistakes that would take longer than anything else.
    found = list(islice(describe_mistakes(exc.errors(), body=exc.body, expects=expects), MAX_REPORTED + 1))
    return build_problem(
        status=422,
        code="invalid-input",
        title="The input is not valid.",
        detail=_describe_count(len(found)),
        mistakes=found[:MAX_REPORTED],
    )


def _describe_count(found: int) -> str:
    if found > MAX_REPORTED:
        return f"More than {MAX_REPORTED} mistakes."
    return f"{found} mistakes." if found > 1 else "One mistake."


async def handle_http_error(request: Request, exc: Exception) -> JSONResponse:
    """Raised by the framework itself: no such route, wrong method."""
    assert isinstance(exc, HTTPException)
    headers = exc.headers
    if exc.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        headers = {"Allow": ", ".join(sorted(list_allowed_methods(request.scope)))}
    phrase = HTTPStatus(exc.status_code).phrase
    detail, remedy = _FRAMEWORK_ERRORS.get(exc.status_code, (str(exc.detail), ""))
    return build_problem(
        status=exc.status_code,
        code=phrase.lower().replace(" ", "-"),
        title=phrase,
        detail=detail,
        headers=headers,
        remedy=remedy,
    )


async def handle_unexpected_error(request: Request, exc: Exception) -> JSONResponse:
    """What went wrong is for the log, not for the caller; the framework logs the traceback."""
    return build_problem(
        status=500, code="internal-error", title="Something went wrong.", detail="The error is in the server's log."
    )


def install_error_handlers(app: FastAPI) -> None:
    app.add_exception_handler(AdmitError, _handle_admit_error)
    app.add_exception_handler(DBAPIError, _handle_driver_error)
    app.add_exception_handler(RequestValidationError, _handle_invalid_request)
    app.add_exception_handler(HTTPException, handle_http_error)
    app.add_exception_handler(Exception, handle_unexpected_error)
