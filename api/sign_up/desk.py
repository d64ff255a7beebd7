"""What routes and pages of signing up share."""

import logging

from fastapi import Request

from api.state import settings_of, signing_of
from nac.db import PlatformScope, session_scope
from nac.errors import AdmitError
from nac.trials import provisioning, service
from nac.trials.service import Desk

_log = logging.getLogger(__name__)


def desk_of(request: Request) -> Desk:
    settings = settings_of(request)
    return Desk(settings.trials, settings.portal_url, signing_of(request).sealer.seal)


def ask(request: Request, *, email: str, organisation: str) -> None:
    address = request.client.host if request.client else None
    with session_scope(PlatformScope()) as session:
        service.ask(session, desk_of(request), email=email, organisation=organisation, address=address)


def look(request: Request, token: str) -> str:
    """The organisation's name."""
    with session_scope(PlatformScope()) as session:
        return service.look(session, desk_of(request), token=token).organisation


def confirm(request: Request, *, token: str, password: str, name: str = "") -> str:
    """The new tenant's slug; "" where it cannot be made at once: then the worker does, and a mail tells."""
    desk = desk_of(request)
    with session_scope(PlatformScope()) as session:
        sign_up_id = service.confirm(session, desk, token=token, password=password, name=name)
    try:
        return provisioning.provision(
            sign_up_id, desk, signing=signing_of(request), radius_host=settings_of(request).radius_host
        )
    except AdmitError as exc:
        _log.warning("the tenant of sign-up %s cannot be made yet: %s", sign_up_id, exc)
        return ""
