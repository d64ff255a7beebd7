"""Renders errors as problem details (RFC 9457)."""

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

from api.route_index import list_allowed_methods
from api.validation_messages import describe_mistakes
from nac.kit.bulk_rows import MAX_REPORTED
from nac.kit.db.error_translation import translate_error
from nac.kit.errors import AdmitError, DatabaseUnavailable, describe_problem

_log = logging.getLogger("admit.api")
# Detail and remedy of the framework's errors.
_FRAMEWORK_ERRORS: Mapping[int, tuple[str, str]] = {
    HTTPStatus.NOT_FOUND: (
        "This path does not exist.",
        "Check the spelling of the path, and remove a trailing slash.",
    ),
    HTTPStatus.METHOD_NOT_ALLOWED: ("This path does not support the method.", "Use a method in the header Allow."),
}
# Formatting this number of mistakes takes milliseconds. A thread formats larger numbers, so that other requests do not
# wait.
_MAX_INLINE_MISTAKES = 10


def build_problem(
    *, status: int, code: str, title: str, detail: str, headers: Mapping[str, str] | None = None, **members: object
) -> JSONResponse:
    """Problem response. `members` are extension members (RFC 9457 3.2). Empty members are omitted."""
    body = {"type": "about:blank", "title": title, "status": status, "detail": detail, "code": code}
    body |= {name: value for name, value in members.items() if value}
    return JSONResponse(body, status, headers, media_type="application/problem+json")


def build_retry_headers(exc: AdmitError) -> dict[str, str]:
    """Header `Retry-After` (RFC 9110 10.2.3), if a retry can succeed."""
    return {} if exc.retry_after_seconds is None else {"Retry-After": str(exc.retry_after_seconds)}


def render_error(exc: AdmitError) -> JSONResponse:
    """Problem response (RFC 9457)."""
    headers = build_retry_headers(exc)
    if exc.status == HTTPStatus.UNAUTHORIZED:
        # RFC 6750 3.
        headers["WWW-Authenticate"] = 'Bearer realm="admit"'
    return build_problem(status=exc.status, headers=headers, **describe_problem(exc))


def redact_error(request: Request, exc: AdmitError) -> AdmitError:
    """Return the error without details that the caller may not see.

    Callers without authentication get only the title of an internal error. The log gets the details, which can contain
    the names of databases, files and key stores.
    """
    if exc.status < HTTPStatus.INTERNAL_SERVER_ERROR:
        return exc
    # The route's pattern, because the path of a link contains its secret.
    route = getattr(request.scope.get("route"), "path", "?")
    _log.error("%s %s: %s", request.method, route, exc)
    if not request.app.state.for_strangers:
        return exc
    plain = copy(exc)
    plain.detail, plain.place, plain.remedy = exc.title, "", "Try again later."
    if isinstance(plain, DatabaseUnavailable):
        plain.reason = ""
    return plain


# Handlers are `async` and do no I/O. A handler without `async` needs a thread, even to report that no thread is free.
async def _handle_admit_error(request: Request, exc: Exception) -> JSONResponse:
    assert isinstance(exc, AdmitError)
    return render_error(redact_error(request, exc))


async def _handle_driver_error(request: Request, exc: Exception) -> JSONResponse:
    """Handle an error of the database driver outside `session_scope`."""
    assert isinstance(exc, DBAPIError)
    return await _handle_admit_error(request, translate_error(exc))


async def _handle_invalid_request(request: Request, exc: Exception) -> JSONResponse:
    assert isinstance(exc, RequestValidationError)
    if len(exc.errors()) <= _MAX_INLINE_MISTAKES:
        return _render_mistakes(request, exc)
    return await run_in_threadpool(_render_mistakes, request, exc)


def _render_mistakes(request: Request, exc: RequestValidationError) -> JSONResponse:
    field = getattr(request.scope.get("route"), "body_field", None)
    expects = None if field is None else field.field_info.annotation
    # The number of errors is limited, because formatting every error of a large invalid body would take very long.
    found = list(islice(describe_mistakes(exc.errors(), body=exc.body, expects=expects), MAX_REPORTED + 1))
    return build_problem(
        status=422,
        code="invalid-input",
        title="The input is invalid.",
        detail=_describe_count(len(found)),
        mistakes=found[:MAX_REPORTED],
    )


def _describe_count(found: int) -> str:
    if found > MAX_REPORTED:
        return f"More than {MAX_REPORTED} mistakes."
    return f"{found} mistakes." if found > 1 else "One mistake."


async def handle_http_error(request: Request, exc: Exception) -> JSONResponse:
    """Render an error of the framework, such as an unknown path or a wrong method."""
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
    """Render an internal error. The traceback goes to the log, and not to the caller."""
    return build_problem(
        status=500, code="internal-error", title="Internal error.", detail="The error is in the server's log."
    )


def install_error_handlers(app: FastAPI) -> None:
    app.add_exception_handler(AdmitError, _handle_admit_error)
    app.add_exception_handler(DBAPIError, _handle_driver_error)
    app.add_exception_handler(RequestValidationError, _handle_invalid_request)
    app.add_exception_handler(HTTPException, handle_http_error)
    app.add_exception_handler(Exception, handle_unexpected_error)
