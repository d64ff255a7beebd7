"""Response headers of operations, and where If-Match and If-None-Match apply."""

from collections.abc import Iterator
from http import HTTPStatus
from typing import Any

from api.access import ChangesTenant
from api.described.routes import Told

_TEXT, _NUMBER = {"type": "string"}, {"type": "integer", "minimum": 0}
# By name: schema, example and description.
_HEADERS: dict[str, tuple[dict[str, Any], Any, str]] = {
    "X-Request-Id": (_TEXT, "5f3a9c0e1b7d2468", "Id of this request, in the audit log and in logs."),
    "RateLimit-Policy": (
        _TEXT,
        '"credential";q=1200;w=60',
        "Limit: `q` requests per `w` seconds.",
    ),
    "RateLimit": (
        _TEXT,
        '"credential";r=1199;t=1',
        "Remaining requests (`r`), and seconds until all are available again (`t`).",
    ),
    "ETag": (
        _TEXT,
        '"4c1f0d9be2a34c5f8b7a6d5e4f3c2b1a"',
        "State of the object, for If-Match and If-None-Match.",
    ),
    "Admit-Position": (_TEXT, "100247", "Transaction of the change."),
    "Admit-Live": (
        {"type": "string", "enum": ["true", "false"]},
        "true",
        "Whether the change is in force in the tenant's cell; `wait=live` waits for it, 5 seconds at most.",
    ),
    "Idempotency-Replayed": (
        {"type": "string", "enum": ["true"]},
        "true",
        "The request was done before: this is the original response.",
    ),
    "Location": (
        _TEXT,
        "/v1/tenants/hill-school/jobs/0190b6c2-7c11-7d52-9a43-0c5d8f2e6b10",
        "Path of the created object, or of the job.",
    ),
    "Retry-After": (_NUMBER, 30, "Seconds to wait before a retry."),
    "Allow": (_TEXT, "GET, POST", "Supported methods of this path."),
    "WWW-Authenticate": (_TEXT, 'Bearer realm="admit"', "Authentication scheme (RFC 6750)."),
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
    "description": "ETag of the state to change, or *. The request fails with 412 if the state has changed.",
}
_IF_NONE_MATCH = {
    "name": "If-None-Match",
    "in": "header",
    "required": False,
    "schema": {"type": "string"},
    "description": "ETags that the client has. If one matches, the response is 304 without a body.",
}


def components() -> dict[str, Any]:
    return {
        name: {"description": description, "schema": schema, "example": example}
        for name, (schema, example, description) in _HEADERS.items()
    }


def tell_headers(operation: dict[str, Any], route: Told) -> None:
    for status, answer in operation["responses"].items():
        if "$ref" not in answer:
            names = [*_EVERY, *_own(int(status), operation, route)]
            answer["headers"] = {name: _reference(name) for name in names}


def of_refusal(status: int) -> dict[str, Any]:
    names = [*_EVERY, _OF_REFUSALS[HTTPStatus(status)]] if status in _OF_REFUSALS else _EVERY
    return {name: _reference(name) for name in names}


def tell_if_none_match(operation: dict[str, Any], route: Told) -> None:
    if _shows(operation, route):
        operation.setdefault("parameters", []).append(_IF_NONE_MATCH)
        operation["responses"]["304"] = {"description": "Not modified. The response has no body."}


def tell_if_match(operation: dict[str, Any], route: Told) -> None:
    if "require_match" in route.uses:
        operation.setdefault("parameters", []).append(_IF_MATCH)


def _reference(name: str) -> dict[str, str]:
    return {"$ref": f"#/components/headers/{name}"}


def _shows(operation: dict[str, Any], route: Told) -> bool:
    parameters = {each["name"].lower() for each in operation.get("parameters", ())}
    return "shown" in route.uses and not parameters & {"after", "idempotency-key"}


def _own(status: int, operation: dict[str, Any], route: Told) -> Iterator[str]:
    parameters = {each["name"].lower() for each in operation.get("parameters", ())}
    changes = "idempotency-key" in parameters
    if _shows(operation, route) or (changes and "answer" in route.uses and status != HTTPStatus.NO_CONTENT):
        yield "ETag"
    if changes:
        yield "Idempotency-Replayed"
    if isinstance(route.asks, ChangesTenant) or route.operation_id in _MAKES_TENANT:
        yield from ("Admit-Position", "Admit-Live")
    is_job = status == HTTPStatus.ACCEPTED and (_JOB in str(operation["responses"]) or "located" in route.uses)
    if is_job or status in (HTTPStatus.CREATED, HTTPStatus.SEE_OTHER):
        yield "Location"
