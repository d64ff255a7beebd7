"""Who looks at a page, by the cookie of a browser. Nothing else is taken here: programs use the API."""

from collections.abc import Callable, Mapping

from fastapi import Request, Response
from fastapi.responses import RedirectResponse

from api import cookies, form_pages
from api.access import Access, Asked, NotSignedIn, Requires, asked_of
from nac.errors import AdmitError
from nac.sign_in.errors import SecondFactorNeeded, SignInOver

_FACTOR = form_pages.Onward("/second-factor", "Your second factor")
_TENANTS = form_pages.Onward("/", "All your tenants")


def visitor(request: Request) -> Asked:
    """Raises NotSignedIn and SignInOver."""
    return asked_of(request, Response(), None)


def tenant(request: Request, requires: Requires) -> Access:
    """The tenant that the path names. Raises as `visitor`, and TenantNotFound, Forbidden and SecondFactorNeeded."""
    return requires.on_tenant(visitor(request))


def note_form(request: Request, fields: Mapping[str, str]) -> None:
    """To be called before it is asked who looks."""
    cookies.note_csrf_token(request, fields.get("csrf_token", ""))


def answered(answer: Callable[[], Response]) -> Response:
    """Who is not signed in is asked to."""
    try:
        return answer()
    except (NotSignedIn, SignInOver):
        return RedirectResponse("/sign-in", 303)
    except SecondFactorNeeded as exc:
        return form_pages.refused(exc, _FACTOR, _TENANTS)
    except AdmitError as exc:
        return form_pages.refused(exc, _TENANTS)
