"""Response headers of operations, and the parameters If-Match and If-None-Match."""

from collections.abc import Iterator
from http import HTTPStatus
from typing import Any

from api.access import ChangesTenant
from api.described.described_routes import DescribedRoute

_TEXT_SCHEMA, _NUMBER_SCHEMA = {"type": "string"}, {"type": "integer", "minimum": 0}
# By name: schema, example and description.
_HEADERS: dict[str, tuple[dict[str, Any], Any, str]] = {
    "X-Request-Id": (_TEXT_SCHEMA, "5f3a9c0e1b7d2468", "Id of this request in the audit log and in other logs."),
    "RateLimit-Policy": (
        _TEXT_SCHEMA,
        '"credential";q=1200;w=60',
        "Rate limit: at most `q` requests in `w` seconds.",
    ),
    "RateLimit": (
        _TEXT_SCHEMA,
        '"credential";r=1199;t=1',
        "Number of remaining requests (`r`), and seconds until all requests are available again (`t`).",
    ),
    "ETag": (
        _TEXT_SCHEMA,
        '"4c1f0d9be2a34c5f8b7a6d5e4f3c2b1a"',
        "Tag of the object's state, for If-Match and If-None-Match.",
    ),
    "Admit-Position": (_TEXT_SCHEMA, "100247", "Number of the transaction that made the change."),
    "Admit-Live": (
        {"type": "string", "enum": ["true", "false"]},
        "true",
        "Whether the change is in force in the tenant's cell. `wait=live` waits until then, 5 seconds at most.",
    ),
    "Idempotency-Replayed": (
        {"type": "string", "enum": ["true"]},
        "true",
        "An earlier request with this Idempotency-Key made the change. This response is the original response.",
    ),
    "Location": (
        _TEXT_SCHEMA,
        "/v1/tenants/hill-school/jobs/0190b6c2-7c11-7d52-9a43-0c5d8f2e6b10",
        "Path of the created object or of the started job.",
    ),
    "Retry-After": (_NUMBER_SCHEMA, 30, "Seconds to wait before you retry the request."),
    "Allow": (_TEXT_SCHEMA, "GET, POST", "Methods that this path supports."),
    "WWW-Authenticate": (
        _TEXT_SCHEMA,
        'Bearer realm="admit"',
        "Authentication scheme that the API requires (RFC 6750).",
    ),
}
_COMMON_HEADERS = ("X-Request-Id", "RateLimit-Policy", "RateLimit")
_ERROR_HEADERS = {
    HTTPStatus.UNAUTHORIZED: "WWW-Authenticate",
    HTTPStatus.METHOD_NOT_ALLOWED: "Allow",
    HTTPStatus.TOO_MANY_REQUESTS: "Retry-After",
    HTTPStatus.SERVICE_UNAVAILABLE: "Retry-After",
}
_TENANT_CREATING_OPERATIONS = {"createTenant", "createTenantOfMsp"}
_JOB_REFERENCE = "#/components/schemas/Job'"
_IF_MATCH_PARAMETER = {
    "name": "If-Match",
    "in": "header",
    "required": False,
    "schema": {"type": "string", "minLength": 1},
    "description": "ETag of the state to change, or *. The request fails with 412 if the state has changed.",
}
_IF_NONE_MATCH_PARAMETER = {
    "name": "If-None-Match",
    "in": "header",
    "required": False,
    "schema": {"type": "string"},
    "description": "ETags that the client has. If one ETag is current, the response is 304 without a body.",
}


def build_header_components() -> dict[str, Any]:
    return {
        name: {"description": description, "schema": schema, "example": example}
        for name, (schema, example, description) in _HEADERS.items()
    }


def add_response_headers(operation: dict[str, Any], route: DescribedRoute) -> None:
    for status, answer in operation["responses"].items():
        if "$ref" not in answer:
            names = [*_COMMON_HEADERS, *_list_own_headers(int(status), operation, route)]
            answer["headers"] = {name: _build_reference(name) for name in names}


def build_error_headers(status: int) -> dict[str, Any]:
    names = [*_COMMON_HEADERS, _ERROR_HEADERS[HTTPStatus(status)]] if status in _ERROR_HEADERS else _COMMON_HEADERS
    return {name: _build_reference(name) for name in names}


def add_if_none_match(operation: dict[str, Any], route: DescribedRoute) -> None:
    if _returns_etag(operation, route):
        operation.setdefault("parameters", []).append(_IF_NONE_MATCH_PARAMETER)
        operation["responses"]["304"] = {"description": "Not modified. The response has no body."}


def add_if_match(operation: dict[str, Any], route: DescribedRoute) -> None:
    if "require_match" in route.uses:
        operation.setdefault("parameters", []).append(_IF_MATCH_PARAMETER)


def _build_reference(name: str) -> dict[str, str]:
    return {"$ref": f"#/components/headers/{name}"}


def _returns_etag(operation: dict[str, Any], route: DescribedRoute) -> bool:
    parameters = {each["name"].lower() for each in operation.get("parameters", ())}
    return "shown" in route.uses and not parameters & {"after", "idempotency-key"}


def _list_own_headers(status: int, operation: dict[str, Any], route: DescribedRoute) -> Iterator[str]:
    parameters = {each["name"].lower() for each in operation.get("parameters", ())}
    changes = "idempotency-key" in parameters
    if _returns_etag(operation, route) or (changes and "answer" in route.uses and status != HTTPStatus.NO_CONTENT):
        yield "ETag"
    if changes:
        yield "Idempotency-Replayed"
    if isinstance(route.asks, ChangesTenant) or route.operation_id in _TENANT_CREATING_OPERATIONS:
        yield from ("Admit-Position", "Admit-Live")
    is_job = status == HTTPStatus.ACCEPTED and (
        _JOB_REFERENCE in str(operation["responses"]) or "located" in route.uses
    )
    if is_job or status in (HTTPStatus.CREATED, HTTPStatus.SEE_OTHER):
        yield "Location"
