"""Functions that complete /openapi.json with error responses, and with the texts, headers and examples of
api.described.
"""

import gzip
import hashlib
import json
import re
import threading
from collections.abc import Iterable, Iterator, Mapping
from http import HTTPStatus
from typing import Any, NamedTuple

from fastapi import APIRouter, FastAPI, Request, Response

from api.described.described_routes import DescribedRoute, collect_routes
from api.described.descriptions import (
    add_field_descriptions,
    add_info,
    add_number_formats,
    add_permission,
    add_security_schemes,
    add_summary,
)
from api.described.examples import add_examples
from api.described.headers import add_if_match, add_if_none_match, add_response_headers, build_error_headers
from api.described.headers import build_header_components as headers
from api.routes import NounRouter

_PROBLEM = "Problem"
_PROBLEM_SCHEMA: dict[str, Any] = {
    "title": _PROBLEM,
    "description": "Problem details (RFC 9457). `code` is stable, for programs; `detail` is for people.",
    "type": "object",
    "required": ["type", "title", "status", "detail", "code"],
    "properties": {
        "type": {"type": "string", "description": "Always about:blank; `code` identifies the problem."},
        "title": {"type": "string", "description": "Meaning of `code`."},
        "status": {"type": "integer", "description": "HTTP status of the response."},
        "detail": {"type": "string", "description": "What failed, with the invalid value."},
        "code": {"type": "string", "description": "Stable code of the error, for programs."},
        "place": {"type": "string", "description": "Field, row or header with the error."},
        "remedy": {"type": "string", "description": "What to do about the error."},
        "next_steps": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["operation", "parameters"],
                "properties": {"operation": {"type": "string"}, "parameters": {"type": "object"}},
            },
            "description": "Operations that `remedy` names. An empty `operation` means the operation of the request.",
        },
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
_CHANGING_METHODS = {"post", "put", "patch", "delete"}
_STATUS_DESCRIPTIONS = {
    400: "The request is malformed.",
    401: "The credential is missing or invalid.",
    403: "The caller does not have the required permission.",
    404: "The object does not exist, or you cannot see it.",
    405: "The path does not support this method.",
    408: "The body did not arrive in time.",
    409: "The request conflicts with the current state.",
    410: "The link or file was used or has expired.",
    412: "The object has changed since you read the object.",
    413: "The body is too large.",
    415: "The media type of the body is not supported.",
    422: "The input is invalid, or the Idempotency-Key was used for another request.",
    429: "Too many requests. Retry after the time in Retry-After.",
    503: "A component that the request requires, such as the database, does not respond.",
}
router = APIRouter(include_in_schema=False)
_document_lock = threading.Lock()


class _OpenApiDocument(NamedTuple):
    plain: bytes
    packed: bytes
    tag: str


def install_openapi(app: FastAPI, routers: Iterable[NounRouter]) -> None:
    """Complete the OpenAPI document of an application that has these routers."""
    app.openapi_tags = [router.tag for router in routers]
    plain = app.openapi

    def described() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = _rename_page_schemas(plain())
            _complete_document(app.openapi_schema, collect_routes(app))
        return app.openapi_schema

    app.openapi = described  # type: ignore[method-assign]


def _rename_page_schemas(document: dict[str, Any]) -> dict[str, Any]:
    """Rename schemas of pages, such as `Page_Site_` to `SitePage`.

    Pydantic builds names such as `Page_Site_` for generic classes.
    """
    named: dict[str, Any] = json.loads(re.sub(r"\b(LogPage|Page)_(\w+?)_\b", r"\2\1", json.dumps(document)))
    for name, schema in named["components"]["schemas"].items():
        schema["title"] = name
    return named


def _complete_document(document: dict[str, Any], routes: Mapping[tuple[str, str], DescribedRoute]) -> None:
    components = document.setdefault("components", {})
    schemas = components.setdefault("schemas", {})
    schemas[_PROBLEM] = _PROBLEM_SCHEMA
    for unused in ("HTTPValidationError", "ValidationError"):
        schemas.pop(unused, None)
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            route = routes[path, method]
            if "requestBody" in operation:
                # Explicit, even though false is the default.
                operation["requestBody"].setdefault("required", False)
            for status in _list_error_statuses(path, method, operation):
                if status == HTTPStatus.UNPROCESSABLE_ENTITY or str(status) not in operation["responses"]:
                    operation["responses"][str(status)] = {"$ref": f"#/components/responses/Refused{status}"}
            add_if_match(operation, route)
            add_if_none_match(operation, route)
            add_response_headers(operation, route)
            add_summary(operation)
            add_permission(operation, route)
    components["schemas"] = dict(sorted(schemas.items()))
    add_field_descriptions(components["schemas"])
    add_examples(document)
    components["headers"] = headers()
    components["responses"] = {
        f"Refused{status}": _error_response(status) | {"headers": build_error_headers(status)}
        for status in _STATUS_DESCRIPTIONS
    }
    add_security_schemes(document)
    add_info(document)
    add_number_formats(document)


def _list_error_statuses(path: str, method: str, operation: dict[str, Any]) -> Iterator[int]:
    if path == "/readyz":
        yield 503
    if not path.startswith("/v1"):
        return
    yield from (400, 404, 405, 422, 429, 503)
    if operation.get("security"):
        yield from (401, 403)
    if method in _CHANGING_METHODS:
        yield from (401, 403, 408, 409, 412, 413, 415)


def error_responses(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the argument `responses` of a route, which describes additional error statuses."""
    return {status: _error_response(status) for status in statuses}


@router.get("/openapi.json")
def get_openapi_document(request: Request) -> Response:
    """Serve the document. The document is built once, because the document is about a megabyte long."""
    document = _get_document(request.app)
    packs = "gzip" in request.headers.get("accept-encoding", "")
    etag = f'"{document.tag}-gzip"' if packs else f'"{document.tag}"'
    headers = {"ETag": etag, "Cache-Control": "public, max-age=300", "Vary": "Accept-Encoding"}
    if etag in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    if packs:
        return Response(document.packed, media_type="application/json", headers=headers | {"Content-Encoding": "gzip"})
    return Response(document.plain, media_type="application/json", headers=headers)


def _error_response(status: int) -> dict[str, Any]:
    reference = {"$ref": f"#/components/schemas/{_PROBLEM}"}
    return {
        "description": _STATUS_DESCRIPTIONS[status],
        "content": {"application/problem+json": {"schema": reference}},
    }


def _get_document(app: FastAPI) -> _OpenApiDocument:
    with _document_lock:
        made: _OpenApiDocument | None = getattr(app.state, "description", None)
        if made is None:
            plain = json.dumps(app.openapi(), ensure_ascii=False, separators=(",", ":")).encode()
            made = _OpenApiDocument(plain, gzip.compress(plain), hashlib.sha256(plain).hexdigest()[:32])
            app.state.description = made
        return made
