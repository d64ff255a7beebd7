"""Who looks at a page, by the cookie of a browser. Nothing else is taken here: programs use the API."""

from collections.abc import Callable, Mapping

from fastapi import Request, Response
from fastapi.responses import RedirectResponse

from api import cookies, form_pages
from api.access import Access, Caller, NotSignedIn, RequiresPermission, authenticate_caller
from nac.errors import AdmitError
from nac.sign_in.errors import SecondFactorNeeded, SignInOver

_FACTOR_LINK = form_pages.PageLink("/second-factor", "Your second factor")
_TENANTS_LINK = form_pages.PageLink("/", "All your tenants")


def authenticate_visitor(request: Request) -> Caller:
    """Raises NotSignedIn and SignInOver."""
    return authenticate_caller(request, Response(), None)


def open_tenant_access(request: Request, requires: RequiresPermission) -> Access:
    """The tenant that the path names. Raises as `visitor`, and TenantNotFound, Forbidden and SecondFactorNeeded."""
    return requires.on_tenant(authenticate_visitor(request))


def record_csrf_token(request: Request, fields: Mapping[str, str]) -> None:
    """To be called before it is asked who looks."""
    cookies.note_csrf_token(request, fields.get("csrf_token", ""))


def render_page(answer: Callable[[], Response]) -> Response:
    """Who is not signed in is asked to."""
    try:
        return answer()
    except (NotSignedIn, SignInOver):
        return RedirectResponse("/sign-in", 303)
    except SecondFactorNeeded as exc:
        return form_pages.render_error_page(exc, _FACTOR_LINK, _TENANTS_LINK)
    except AdmitError as exc:
        return form_pages.render_error_page(exc, _TENANTS_LINK)
