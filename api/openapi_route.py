"""Serves /openapi.json. The document is built once because it has about a megabyte."""

import gzip
import hashlib
import json
import threading
from typing import NamedTuple

from fastapi import APIRouter, FastAPI, Request, Response

router = APIRouter(include_in_schema=False)

_document_lock = threading.Lock()


class _OpenApiDocument(NamedTuple):
    plain: bytes
    packed: bytes
    tag: str


@router.get("/openapi.json")
def get_openapi_document(request: Request) -> Response:
    document = _get_document(request.app)
    packs = "gzip" in request.headers.get("accept-encoding", "")
    etag = f'"{document.tag}-gzip"' if packs else f'"{document.tag}"'
    headers = {"ETag": etag, "Cache-Control": "public, max-age=300", "Vary": "Accept-Encoding"}
    if etag in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    if packs:
        return Response(document.packed, media_type="application/json", headers=headers | {"Content-Encoding": "gzip"})
    return Response(document.plain, media_type="application/json", headers=headers)


def _get_document(app: FastAPI) -> _OpenApiDocument:
    with _document_lock:
        made: _OpenApiDocument | None = getattr(app.state, "description", None)
        if made is None:
            plain = json.dumps(app.openapi(), ensure_ascii=False, separators=(",", ":")).encode()
            made = _OpenApiDocument(plain, gzip.compress(plain), hashlib.sha256(plain).hexdigest()[:32])
            app.state.description = made
        return made
