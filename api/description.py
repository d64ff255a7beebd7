"""What /openapi.json says beyond the routes: each refusal that there may be, and all of api.described."""

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
    "description": "Problem details (RFC 9457). `code` is for programs and stays; `detail` is for people.",
    "type": "object",
    "required": ["type", "title", "status", "detail", "code"],
    "properties": {
        "type": {"type": "string", "description": "about:blank: `code` names the kind of problem."},
        "title": {"type": "string", "description": "The meaning of `code`."},
        "status": {"type": "integer", "description": "The HTTP status."},
        "detail": {"type": "string", "description": "What failed, with the value."},
        "code": {"type": "string", "description": "Code for programs. It does not change."},
        "place": {"type": "string", "description": "The field, row or header that is wrong."},
        "remedy": {"type": "string", "description": "What to do about it."},
        "mistakes": {
            "type": "array",
            "items": {"type": "object"},
            "description": "Each mistake, where there are several.",
        },
    },
    "example": {
        "type": "about:blank",
        "title": "There is no such endpoint.",
        "status": 404,
        "detail": "There is no endpoint 00:00:5e:00:53:01.",
        "code": "endpoint-not-found",
        "place": "mac",
    },
}
_CHANGES = {"post", "put", "patch", "delete"}
_WHEN = {
    400: "The request cannot be read.",
    401: "No token, or one that is not valid.",
    403: "The permission is missing.",
    404: "There is no such thing, or it is another's.",
    405: "The path has other methods.",
    408: "The body did not come in time.",
    409: "It does not go with what is there.",
    410: "It was good once, or for a time, and is no more.",
    412: "It has been changed meanwhile.",
    413: "The body is too large.",
    415: "The body is of another form than is read here.",
    422: "The input is not valid, or the Idempotency-Key was given with another request.",
    429: "Too much was asked; Retry-After says when to ask again.",
    503: "A part that this needs does not answer.",
}


def describe(app: FastAPI) -> None:
    """Of all routes, whoever made them."""
    plain = app.openapi

    def described() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = _name_pages(plain())
            _complete(app.openapi_schema, routes_of(app))
        return app.openapi_schema

    app.openapi = described  # type: ignore[method-assign]


def _name_pages(document: dict[str, Any]) -> dict[str, Any]:
    """`SitePage` instead of `Page_Site_`, as pydantic names a generic class."""
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
            told = routes[path, method]
            if "requestBody" in operation:
                # Said also where it is as it would be without.
                operation["requestBody"].setdefault("required", False)
            for status in _refusals(path, method, operation):
                if status == HTTPStatus.UNPROCESSABLE_ENTITY or str(status) not in operation["responses"]:
                    operation["responses"][str(status)] = {"$ref": f"#/components/responses/Refused{status}"}
            tell_if_match(operation, told)
            tell_if_none_match(operation, told)
            tell_headers(operation, told)
            tell_words(operation)
            tell_permission(operation, told)
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
    """A route's `responses`, of refusals that others have not."""
    return {status: _answer(status) for status in statuses}


def _answer(status: int) -> dict[str, Any]:
    reference = {"$ref": f"#/components/schemas/{_PROBLEM}"}
    return {
        "description": _WHEN[status],
        "content": {"application/problem+json": {"schema": reference}},
    }
