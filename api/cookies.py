"""Cookies of signed-in browsers, and protection against cross-site requests."""

import hmac
from datetime import timedelta
from typing import Final
from urllib.parse import urlsplit

from fastapi import Request, Response

from nac.accounts.sign_in import sign_ins
from nac.accounts.sign_in.secret_texts import SignInText
from nac.kit.errors import Forbidden
from nac.kit.settings import Settings

SESSION_COOKIE: Final = "admit"
DEVICE_COOKIE: Final = "admit-device"
SIGN_ON_COOKIE: Final = "admit-sign-on"
CSRF_HEADER: Final = "Admit-CSRF"
_SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
# `none` means that the user opened the page, for example by typing the address.
_SAME_SITES = frozenset({"same-origin", "none"})


class CrossSite(Forbidden):
    """The request comes from another site."""


class CsrfTokenMissing(Forbidden):
    """The CSRF token is missing or wrong."""


def portal_origin(settings: Settings) -> str:
    parts = urlsplit(settings.portal_url)
    return f"{parts.scheme}://{parts.netloc}"


def read_cookie(request: Request, name: str) -> str:
    """Return the value of a cookie; "" if the request has no such cookie."""
    return request.cookies.get(_cookie_name(request, name), "")


def set_cookie(request: Request, response: Response, name: str, value: str, *, good_for: timedelta) -> None:
    """Set a cookie for this host only, invisible to scripts, and not sent with POST requests of other sites."""
    response.set_cookie(
        _cookie_name(request, name),
        value,
        max_age=int(good_for.total_seconds()),
        path="/",
        secure=_is_https(request),
        httponly=True,
        samesite="lax",
    )


def set_session_cookie(request: Request, response: Response, text: SignInText) -> None:
    set_cookie(request, response, SESSION_COOKIE, text.reveal(), good_for=sign_ins.MAX_LIFETIME)


def clear_cookie(request: Request, response: Response, name: str) -> None:
    response.delete_cookie(
        _cookie_name(request, name), path="/", secure=_is_https(request), httponly=True, samesite="lax"
    )


def require_same_origin(request: Request) -> None:
    """Raise CrossSite if another site sent a changing request. Only browsers send the headers that this check reads."""
    if request.method in _SAFE_METHODS:
        return
    site = request.headers.get("sec-fetch-site")
    if site is not None:
        if site not in _SAME_SITES:
            raise CrossSite
        return
    origin = request.headers.get("origin")
    if origin is not None and origin != portal_origin(request.app.state.settings):
        raise CrossSite(remedy="Use the address in ADMIT_PORTAL_URL.")


def is_from_other_site(request: Request) -> bool:
    """Whether a page of another site opened this page; False if the browser does not report the other site."""
    return request.headers.get("sec-fetch-site", "none") not in _SAME_SITES


def note_csrf_token(request: Request, shown: str) -> None:
    """Store the CSRF token of a form for `require_csrf_token`, because forms cannot send headers."""
    request.state.csrf_token = shown


def require_csrf_token(request: Request, wanted: str) -> None:
    """Check that a changing request with a cookie has the CSRF token and comes from the same site.

    Raises CrossSite and CsrfTokenMissing.
    """
    require_same_origin(request)
    shown = getattr(request.state, "csrf_token", "") or request.headers.get(CSRF_HEADER.lower(), "")
    if request.method not in _SAFE_METHODS and not hmac.compare_digest(shown.encode(), wanted.encode()):
        raise CsrfTokenMissing(remedy=f"Send `csrf_token` from the sign-in or GET /v1/me in the header {CSRF_HEADER}.")


def _cookie_name(request: Request, name: str) -> str:
    # Browsers accept this prefix only for a cookie of this host, over HTTPS and with path "/" (RFC 6265bis 4.1.3.2).
    return f"__Host-{name}" if _is_https(request) else name


def _is_https(request: Request) -> bool:
    settings: Settings = request.app.state.settings
    return settings.portal_url.startswith("https://")
