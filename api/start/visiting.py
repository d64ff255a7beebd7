"""Who looks at a page, by the cookie of a browser. Nothing else is taken here: programs use the API."""

from collections.abc import Mapping

from fastapi import Request, Response

from api import cookies
from api.access import Access, Asked, ReadsTenant, asked_of
from nac.accounts.permissions import Permission


def visitor(request: Request) -> Asked:
    """Raises NotSignedIn and SignInOver."""
    return asked_of(request, Response(), None)


def tenant(request: Request, permission: Permission) -> Access:
    """The tenant that the path names. Raises as `visitor`, and TenantNotFound, Forbidden and SecondFactorNeeded."""
    return ReadsTenant(permission).on_tenant(visitor(request))


def note_form(request: Request, fields: Mapping[str, str]) -> None:
    """To be called before it is asked who looks."""
    cookies.note_csrf_token(request, fields.get("csrf_token", ""))
