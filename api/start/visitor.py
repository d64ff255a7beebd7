"""Authentication for pages, by the browser's cookie only. Programs use the API."""

from collections.abc import Callable, Mapping
from functools import wraps
from http import HTTPStatus
from typing import ParamSpec

from fastapi import Request, Response
from fastapi.responses import RedirectResponse

from api import cookies
from api.access import Access, RequiresPermission
from api.caller import Caller, NotSignedIn, authenticate_caller
from api.pages import PageLink, build_error_page, render_error_page
from nac.accounts.sign_in_errors import ConfirmationNeeded, SecondFactorNeeded, SignInOver
from nac.kit.errors import AdmitError

_FACTOR_LINK = PageLink("/second-factor", "Second factor")
_SIGN_IN_LINK = PageLink("/sign-in", "Sign in again")
_TENANTS_LINK = PageLink("/", "All tenants")
# Another person may use the browser by now.
_CONFIRMATION_SENTENCE = "Confirm that it is you: sign in again."
Arguments = ParamSpec("Arguments")


def authenticate_visitor(request: Request) -> Caller:
    """Return the caller who opened the page. Raises NotSignedIn and SignInOver."""
    return authenticate_caller(request, Response(), None)


def open_tenant_access(request: Request, requires: RequiresPermission) -> Access:
    """Return the caller's access to the tenant in the path.

    Raises TenantNotFound, Forbidden, SecondFactorNeeded, NotSignedIn and SignInOver.
    """
    return requires.on_tenant(authenticate_visitor(request))


def record_csrf_token(request: Request, fields: Mapping[str, str]) -> None:
    """Store the form's CSRF token. Call this function before `authenticate_visitor` or `open_tenant_access`."""
    cookies.note_csrf_token(request, fields.get("csrf_token", ""))


def show_errors(endpoint: Callable[Arguments, Response]) -> Callable[Arguments, Response]:
    """Decorate the endpoint of a page, so that errors become pages.

    Callers without a sign-in get a redirect to `/sign-in`.
    """

    @wraps(endpoint)
    def respond(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Response:
        try:
            return endpoint(*args, **kwargs)
        except (NotSignedIn, SignInOver):
            return RedirectResponse("/sign-in", 303)
        except ConfirmationNeeded:
            return build_error_page(_CONFIRMATION_SENTENCE, HTTPStatus.FORBIDDEN, (_SIGN_IN_LINK, _TENANTS_LINK))
        except SecondFactorNeeded as exc:
            return render_error_page(exc, _FACTOR_LINK, _TENANTS_LINK)
        except AdmitError as exc:
            return render_error_page(exc, _TENANTS_LINK)

    return respond
