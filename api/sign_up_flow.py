"""Functions of the sign-up, for both the API routes and the browser pages."""

import logging
from typing import NamedTuple
from uuid import UUID

from fastapi import Request
from fastapi.responses import RedirectResponse

from api.application_state import get_settings, get_signing
from api.sign_in_flow import SignInFlow as SignInDesk
from nac.accounts.people import service as people
from nac.accounts.sign_in.second_factors import Factor
from nac.kit.db import PlatformScope, session_scope
from nac.kit.errors import AdmitError
from nac.onboarding.trials import provisioning, service
from nac.onboarding.trials.service import SignUpContext

_log = logging.getLogger(__name__)


def build_sign_up_context(request: Request) -> SignUpContext:
    settings = get_settings(request)
    return SignUpContext(settings.trials, settings.portal_url, get_signing(request).sealer.seal)


def request_sign_up(request: Request, *, email: str, organisation: str) -> None:
    address = request.client.host if request.client else None
    with session_scope(PlatformScope()) as session:
        service.request_sign_up(
            session, build_sign_up_context(request), email=email, organisation=organisation, address=address
        )


def require_organisation(request: Request, token: str) -> str:
    """Return the name of the organisation in the sign-up with this token."""
    with session_scope(PlatformScope()) as session:
        return service.require_open_sign_up(session, build_sign_up_context(request), token=token).organisation


class SignUpResult(NamedTuple):
    email: str
    person_id: UUID
    # Slug; "" if the tenant could not be created now. The worker then creates the tenant and sends a mail.
    tenant: str


def confirm_sign_up(request: Request, *, token: str, password: str, name: str = "") -> SignUpResult:
    desk = build_sign_up_context(request)
    with session_scope(PlatformScope()) as session:
        row = service.confirm_sign_up(session, desk, token=token, password=password, name=name)
        assert row.person_id is not None
        found = SignUpResult(row.email, row.person_id, "")
        sign_up_id = row.id
    try:
        slug = provisioning.provision_trial(
            sign_up_id, desk, signing=get_signing(request), radius_host=get_settings(request).radius_host
        )
    except AdmitError as exc:
        _log.warning("cannot create the tenant of sign-up %s yet: %s", sign_up_id, exc)
        return found
    return found._replace(tenant=slug)


def sign_in_to_tenant(request: Request, confirmed: SignUpResult) -> RedirectResponse:
    """Sign in this browser and redirect to the new tenant.

    The person opened the mailed link and set the password before.
    """
    to = RedirectResponse(f"/start/{confirmed.tenant}", 303, {"Cache-Control": "no-store"})
    desk = SignInDesk(request, to)
    with desk.as_person(confirmed.person_id) as session:
        text = desk.begin(session, people.require_person(session, person_id=confirmed.person_id), {Factor.PASSWORD})
    desk.finish(confirmed.email, text)
    return to
