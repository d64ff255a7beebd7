"""Serves the portal: the single-page application that `./admit up` builds into portal/dist.

The portal is a client of the REST API. These routes need no sign-in, because the files contain no data.
"""

import mimetypes
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from http import HTTPStatus
from pathlib import Path
from typing import Final

from fastapi import APIRouter, Request, Response
from fastapi.responses import RedirectResponse

from api.pages import build_error_page

router = APIRouter(tags=["portal"], include_in_schema=False)

PORTAL_PATH: Final = "/portal"
_FOLDER: Final = Path(__file__).resolve().parent.parent / "portal" / "dist"
_NONCE_MARK: Final = "__NONCE__"
# Better compression first.
_ENCODINGS: Final = (("br", ".br"), ("gzip", ".gz"))
# Names of assets contain a hash of their content.
_ASSET_HEADERS: Final = {"Cache-Control": "public, max-age=31536000, immutable", "Vary": "Accept-Encoding"}
_PAGE_HEADERS: Final = {
    "Cache-Control": "no-store",
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "X-Robots-Tag": "noindex",
}
_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'nonce-{nonce}'; img-src 'self' data:; connect-src 'self';"
    " form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
_NOT_BUILT: Final = "The portal is not built. Run './admit up' on the server."


@dataclass(frozen=True, slots=True)
class Asset:
    media_type: str
    # Content by Content-Encoding; "" for the uncompressed content.
    contents: Mapping[str, bytes]

    def respond(self, accepted: str) -> Response:
        encoding = next((name for name, _ in _ENCODINGS if name in self.contents and name in accepted), "")
        headers = {**_ASSET_HEADERS, "Content-Encoding": encoding} if encoding else dict(_ASSET_HEADERS)
        return Response(self.contents[encoding], media_type=self.media_type, headers=headers)


@dataclass(frozen=True, slots=True)
class PortalFiles:
    # The HTML page, with a mark where the nonce belongs.
    page: str
    # Assets by file name.
    assets: Mapping[str, Asset]


def read_files(folder: Path) -> PortalFiles | None:
    """Read the built portal into memory. Returns None if the portal is not built."""
    try:
        page = (folder / "index.html").read_text(encoding="utf-8")
        names = {file.name for file in (folder / "assets").iterdir()}
    except FileNotFoundError:
        return None
    suffixes = tuple(suffix for _, suffix in _ENCODINGS)
    plain = sorted(name for name in names if not name.endswith(suffixes))
    return PortalFiles(page, {name: _read_asset(folder / "assets" / name, names) for name in plain})


def _read_asset(path: Path, names: set[str]) -> Asset:
    contents = {"": path.read_bytes()}
    for encoding, suffix in _ENCODINGS:
        if path.name + suffix in names:
            contents[encoding] = path.with_name(path.name + suffix).read_bytes()
    media_type = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
    return Asset(media_type, contents)


def is_built() -> bool:
    return _files() is not None


@cache
def _files() -> PortalFiles | None:
    return read_files(_FOLDER)


@router.get(f"{PORTAL_PATH}/assets/{{name}}")
async def get_asset(request: Request, name: str) -> Response:
    files = _files()
    asset = files.assets.get(name) if files else None
    if asset is None:
        # An old page asks for assets of an old build.
        return Response(status_code=HTTPStatus.NOT_FOUND, headers={"Cache-Control": "no-store"})
    return asset.respond(request.headers.get("accept-encoding", ""))


@router.get(PORTAL_PATH)
async def redirect_to_portal() -> Response:
    return RedirectResponse(f"{PORTAL_PATH}/", HTTPStatus.SEE_OTHER)


@router.get(f"{PORTAL_PATH}/{{path:path}}")
async def show_portal(path: str) -> Response:
    """Return the portal's HTML page. The page reads the rest of the path, so each view has an address."""
    files = _files()
    if files is None:
        return build_error_page(_NOT_BUILT, HTTPStatus.SERVICE_UNAVAILABLE, ())
    nonce = secrets.token_urlsafe(16)
    headers = {**_PAGE_HEADERS, "Content-Security-Policy": _POLICY.format(nonce=nonce)}
    return Response(files.page.replace(_NONCE_MARK, nonce), media_type="text/html", headers=headers)
