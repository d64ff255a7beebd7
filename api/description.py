"""Complete /openapi.json with error responses and everything in api.described."""

import json
import re
from collections.abc import Iterator, Mapping
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI

from api.described.examples import tell_examples
from api.described.headers import components as headers
from api.described.headers import of_refusal, tell_headers, tell_if_match, tell_if_none_match
from api.described.info import tell_info, tell_security
from api.described.numbers import tell_sizes
from api.described.permissions import tell_permission
from api.described.routes import Told, routes_of
from api.described.sets import tell_sets
from api.described.words import tell_fields, tell_words

_PROBLEM = "Problem"
_SCHEMA: dict[str, Any] = {
    "title": _PROBLEM,
    "description": "Problem details (RFC 9457). `code` is stable, for programs; `detail` is for people.",
    "type": "object",
    "required": ["type", "title", "status", "detail", "code"],
    "properties": {
        "type": {"type": "string", "description": "Always about:blank; `code` identifies the problem."},
        "title": {"type": "string", "description": "Meaning of `code`."},
        "status": {"type": "integer", "description": "HTTP status."},
        "detail": {"type": "string", "description": "What failed, with the value."},
        "code": {"type": "string", "description": "Stable code for programs."},
        "place": {"type": "string", "description": "Invalid field, row or header."},
        "remedy": {"type": "string", "description": "What to do."},
        "mistakes": {
            "type": "array",
            "items": {"type": "object"},
            "description": "All errors, if there are several.",
        },
    },
    "example": {
        "type": "about:blank",
        "title": "The endpoint does not exist.",
        "status": 404,
        "detail": "Endpoint 00:00:5e:00:53:01 does not exist.",
        "code": "endpoint-not-found",
        "place": "mac",
    },
}
_CHANGES = {"post", "put", "patch", "delete"}
_WHEN = {
    400: "The request is malformed.",
    401: "The credential is missing or invalid.",
    403: "The permission is missing.",
    404: "The object does not exist, or you cannot see it.",
    405: "The path does not support this method.",
    408: "The body did not arrive in time.",
    409: "The request conflicts with the current state.",
    410: "The link or file was used or has expired.",
    412: "The object has changed since you read it.",
    413: "The body is too large.",
    415: "The media type of the body is not supported.",
    422: "The input is invalid, or the Idempotency-Key was used for another request.",
    429: "Too many requests. Retry after the time in Retry-After.",
    503: "A required component does not respond.",
}


def describe(app: FastAPI) -> None:
    """Extend the OpenAPI document of an application."""
    plain = app.openapi

    def described() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = _name_pages(plain())
            _complete(app.openapi_schema, routes_of(app))
        return app.openapi_schema

    app.openapi = described  # type: ignore[method-assign]


def _name_pages(document: dict[str, Any]) -> dict[str, Any]:
    """Rename pages from `Page_Site_`, the pydantic name of a generic class, to `SitePage`."""
    named: dict[str, Any] = json.loads(re.sub(r"\b(LogPage|Page)_(\w+?)_\b", r"\2\1", json.dumps(document)))
    for name, schema in named["components"]["schemas"].items():
        schema["title"] = name
    return named


def _complete(document: dict[str, Any], routes: Mapping[tuple[str, str], Told]) -> None:
    components = document.setdefault("components", {})
    schemas = components.setdefault("schemas", {})
    schemas[_PROBLEM] = _SCHEMA
    for unused in ("HTTPValidationError", "ValidationError"):
        schemas.pop(unused, None)
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            route = routes[path, method]
            if "requestBody" in operation:
                # Explicit, even though false is the default.
                operation["requestBody"].setdefault("required", False)
            for status in _refusals(path, method, operation):
                if status == HTTPStatus.UNPROCESSABLE_ENTITY or str(status) not in operation["responses"]:
                    operation["responses"][str(status)] = {"$ref": f"#/components/responses/Refused{status}"}
            tell_if_match(operation, route)
            tell_if_none_match(operation, route)
            tell_headers(operation, route)
            tell_words(operation)
            tell_permission(operation, route)
    components["schemas"] = dict(sorted(schemas.items()))
    tell_sets(components["schemas"])
    tell_fields(components["schemas"])
    tell_examples(document)
    components["headers"] = headers()
    components["responses"] = {
        f"Refused{status}": _answer(status) | {"headers": of_refusal(status)} for status in _WHEN
    }
    tell_security(document)
    tell_info(document)
    tell_sizes(document)


def _refusals(path: str, method: str, operation: dict[str, Any]) -> Iterator[int]:
    if path == "/readyz":
        yield 503
    if not path.startswith("/v1"):
        return
    yield from (400, 404, 405, 422, 429, 503)
    if operation.get("security"):
        yield from (401, 403)
    if method in _CHANGES:
        yield from (401, 403, 408, 409, 412, 413, 415)


def refuses(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return `responses` of a route for additional error statuses."""
    return {status: _answer(status) for status in statuses}


def _answer(status: int) -> dict[str, Any]:
    reference = {"$ref": f"#/components/schemas/{_PROBLEM}"}
    return {
        "description": _WHEN[status],
        "content": {"application/problem+json": {"schema": reference}},
    }
