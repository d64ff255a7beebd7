"""Which headers the answers of an operation have, and where If-Match is looked at."""

from collections.abc import Iterator
from http import HTTPStatus
from typing import Any

from api.access import ChangesTenant
from api.described.routes import Told

_TEXT, _NUMBER = {"type": "string"}, {"type": "integer", "minimum": 0}
# Name to its schema, an example, and what it tells.
_HEADERS: dict[str, tuple[dict[str, Any], Any, str]] = {
    "X-Request-Id": (_TEXT, "5f3a9c0e1b7d2468", "Names this request: audit entries of the change and the log have it."),
    "RateLimit-Policy": (
        _TEXT,
        '"credential";q=1200;w=60',
        "How many requests (q) may be made in how many seconds (w).",
    ),
    "RateLimit": (
        _TEXT,
        '"credential";r=1199;t=1',
        "How many are left (r), and in how many seconds all are again (t).",
    ),
    "ETag": (
        _TEXT,
        '"4c1f0d9be2a34c5f8b7a6d5e4f3c2b1a"',
        "The state that is shown, for If-Match and If-None-Match.",
    ),
    "Admit-Position": (_TEXT, "100247", "The transaction of the change."),
    "Admit-Live": (
        {"type": "string", "enum": ["true", "false"]},
        "true",
        "Whether the tenant's cell decides by the change already; `wait=live` waits for it, 5 seconds at most.",
    ),
    "Idempotency-Replayed": (
        {"type": "string", "enum": ["true"]},
        "true",
        "Where it was done before: this is the answer that was given then.",
    ),
    "Location": (
        _TEXT,
        "/v1/tenants/hill-school/jobs/0190b6c2-7c11-7d52-9a43-0c5d8f2e6b10",
        "The path where what was made can be read; of a job, how far it is.",
    ),
    "Retry-After": (_NUMBER, 30, "Seconds until the same may be asked again."),
    "Allow": (_TEXT, "GET, POST", "The methods that this path has."),
    "WWW-Authenticate": (_TEXT, 'Bearer realm="admit"', "How to say who asks (RFC 6750)."),
}
_EVERY = ("X-Request-Id", "RateLimit-Policy", "RateLimit")
_OF_REFUSALS = {
    HTTPStatus.UNAUTHORIZED: "WWW-Authenticate",
    HTTPStatus.METHOD_NOT_ALLOWED: "Allow",
    HTTPStatus.TOO_MANY_REQUESTS: "Retry-After",
    HTTPStatus.SERVICE_UNAVAILABLE: "Retry-After",
}
_MAKES_TENANT = {"createTenant", "createTenantOfMsp"}
_JOB = "#/components/schemas/Job'"
_IF_MATCH = {
    "name": "If-Match",
    "in": "header",
    "required": False,
    "schema": {"type": "string", "minLength": 1},
    "description": "The ETag of the state that is changed, or *: refused with 412 where it is another by now.",
}
_IF_NONE_MATCH = {
    "name": "If-None-Match",
    "in": "header",
    "required": False,
    "schema": {"type": "string"},
    "description": "ETags of what the asker has: 304 and nothing else where it is one of them.",
}


def components() -> dict[str, Any]:
    return {
        name: {"description": told, "schema": schema, "example": example}
        for name, (schema, example, told) in _HEADERS.items()
    }


def tell_headers(operation: dict[str, Any], told: Told) -> None:
    for status, answer in operation["responses"].items():
        if "$ref" not in answer:
            names = [*_EVERY, *_own(int(status), operation, told)]
            answer["headers"] = {name: _reference(name) for name in names}


def of_refusal(status: int) -> dict[str, Any]:
    names = [*_EVERY, _OF_REFUSALS[HTTPStatus(status)]] if status in _OF_REFUSALS else _EVERY
    return {name: _reference(name) for name in names}


def tell_if_none_match(operation: dict[str, Any], told: Told) -> None:
    if _shows(operation, told):
        operation.setdefault("parameters", []).append(_IF_NONE_MATCH)
        operation["responses"]["304"] = {"description": "It is as the asker has it already: there is no body."}


def tell_if_match(operation: dict[str, Any], told: Told) -> None:
    if "require_match" in told.uses:
        operation.setdefault("parameters", []).append(_IF_MATCH)


def _reference(name: str) -> dict[str, str]:
    return {"$ref": f"#/components/headers/{name}"}


def _shows(operation: dict[str, Any], told: Told) -> bool:
    given = {each["name"].lower() for each in operation.get("parameters", ())}
    return "shown" in told.uses and not given & {"after", "idempotency-key"}


def _own(status: int, operation: dict[str, Any], told: Told) -> Iterator[str]:
    given = {each["name"].lower() for each in operation.get("parameters", ())}
    changes = "idempotency-key" in given
    if _shows(operation, told) or (changes and "answer" in told.uses and status != HTTPStatus.NO_CONTENT):
        yield "ETag"
    if changes:
        yield "Idempotency-Replayed"
    if isinstance(told.asks, ChangesTenant) or told.operation_id in _MAKES_TENANT:
        yield from ("Admit-Position", "Admit-Live")
    is_job = status == HTTPStatus.ACCEPTED and (_JOB in str(operation["responses"]) or "located" in told.uses)
    if is_job or status in (HTTPStatus.CREATED, HTTPStatus.SEE_OTHER):
        yield "Location"
