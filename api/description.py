"""What /openapi.json says beyond the routes: each refusal that there may be, and the headers of answers."""

from collections.abc import Iterator
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI

_PROBLEM = "Problem"
_SCHEMA: dict[str, Any] = {
    "title": _PROBLEM,
    "description": "Problem details (RFC 9457). `code` is for programs and stays; `detail` is for people.",
    "type": "object",
    "required": ["type", "title", "status", "detail", "code"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "code": {"type": "string"},
        "place": {"type": "string", "description": "Which field, row or header."},
        "remedy": {"type": "string"},
        "mistakes": {"type": "array", "items": {"type": "object"}, "description": "Where there are several."},
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
_IF_MATCH = {
    "name": "If-Match",
    "in": "header",
    "required": False,
    "schema": {"type": "string", "maxLength": 1000},
    "description": "The ETag of the state that is changed: refused with 412 where it is another by now.",
}


def describe(app: FastAPI) -> None:
    """Of all routes, whoever made them."""
    plain = app.openapi

    def described() -> dict[str, Any]:
        made = app.openapi_schema is None
        document = plain()
        if made:
            _complete(document)
        return document

    app.openapi = described  # type: ignore[method-assign]


def _complete(document: dict[str, Any]) -> None:
    schemas = document.setdefault("components", {}).setdefault("schemas", {})
    schemas[_PROBLEM] = _SCHEMA
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            responses = operation["responses"]
            for status in _refusals(path, method, operation):
                if status == HTTPStatus.UNPROCESSABLE_ENTITY or str(status) not in responses:
                    responses[str(status)] = _answer(status)
            if method in _CHANGES and "{" in path:
                operation.setdefault("parameters", []).append(_IF_MATCH)
    for unused in ("HTTPValidationError", "ValidationError"):
        schemas.pop(unused, None)


def _refusals(path: str, method: str, operation: dict[str, Any]) -> Iterator[int]:
    if not path.startswith("/v1"):
        return
    yield from (400, 404, 422, 429, 503)
    if operation.get("security"):
        yield from (401, 403)
    if method in _CHANGES:
        yield from (401, 403, 408, 409, 412, 413, 415)


def refuses(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """A route's `responses`, of refusals that others have not."""
    return {status: _answer(status) for status in statuses}


def _answer(status: int) -> dict[str, Any]:
    reference = {"$ref": f"#/components/schemas/{_PROBLEM}"}
    answer: dict[str, Any] = {
        "description": _WHEN[status],
        "content": {"application/problem+json": {"schema": reference}},
    }
    if status == HTTPStatus.TOO_MANY_REQUESTS:
        answer["headers"] = {"Retry-After": {"schema": {"type": "integer"}, "description": "Seconds."}}
    return answer
