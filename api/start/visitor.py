"""Authentication of pages by the browser's cookie only; programs use the API."""

from collections.abc import Callable, Mapping

from fastapi import Request, Response
from fastapi.responses import RedirectResponse

from api import cookies, form_pages
from api.access import Access, RequiresPermission
from api.caller import Caller, NotSignedIn, authenticate_caller
from nac.accounts.sign_in_errors import SecondFactorNeeded, SignInOver
from nac.kit.errors import AdmitError

_FACTOR_LINK = form_pages.PageLink("/second-factor", "Second factor")
_TENANTS_LINK = form_pages.PageLink("/", "All tenants")


def authenticate_visitor(request: Request) -> Caller:
    """Caller of the page. Raises NotSignedIn and SignInOver."""
    return authenticate_caller(request, Response(), None)


def open_tenant_access(request: Request, requires: RequiresPermission) -> Access:
    """Access to the tenant in the path. Raises TenantNotFound, Forbidden, SecondFactorNeeded and as `visitor`."""
    return requires.on_tenant(authenticate_visitor(request))


def record_csrf_token(request: Request, fields: Mapping[str, str]) -> None:
    """Note the form's CSRF token. Call this before `visitor` or `tenant`."""
    cookies.note_csrf_token(request, fields.get("csrf_token", ""))


def render_page(answer: Callable[[], Response]) -> Response:
    """Response of `answer`, or the page of its error. Without a sign-in, redirects to `/sign-in`."""
    try:
        return answer()
    except (NotSignedIn, SignInOver):
        return RedirectResponse("/sign-in", 303)
    except SecondFactorNeeded as exc:
        return form_pages.render_error_page(exc, _FACTOR_LINK, _TENANTS_LINK)
    except AdmitError as exc:
        return form_pages.render_error_page(exc, _TENANTS_LINK)
