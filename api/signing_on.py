"""The transactions of a sign-in by an organisation's provider. Nothing is open while the provider is asked."""

import hmac
from datetime import timedelta
from uuid import UUID

from fastapi import Request
from fastapi.responses import RedirectResponse

from api import cookies
from api.signing_in import Desk, require_active
from nac.accounts.owners import Owner
from nac.clock import utc_now
from nac.db import CredentialScope, MspScope, Scope, TenantScope, session_scope
from nac.models import SignOn
from nac.settings import Settings
from nac.sign_in import attempts, sessions
from nac.sign_in.challenges import SignOnBegun
from nac.sign_in.errors import AnotherIsSignedIn, SignInOver, SignInRefused
from nac.sign_in.factors import Factor
from nac.sign_in.sessions import Via
from nac.sign_in.text import SignInText
from nac.sign_ons import service as sign_ons
from nac.sign_ons.flow import Identity, Provider, ProviderRefused, Returned

_BACK_WITHIN = timedelta(minutes=10)


def callback_url(settings: Settings, sign_on_id: UUID) -> str:
    """Of each provider its own, so that the answer of one is never taken for another's (RFC 9700 4.4)."""
    return f"{settings.portal_url}/v1/sign-on/{sign_on_id}/callback"


def begin_url(settings: Settings, sign_on_id: UUID) -> str:
    return f"{settings.portal_url}/v1/sign-on/{sign_on_id}/begin"


def begin(request: Request, desk: Desk, sign_on_id: UUID, to: str) -> RedirectResponse:
    """The browser goes to the provider, and keeps what its answer must go with."""
    row = _row(sign_on_id)
    begun = _provider(request, row).begin()
    kept = SignOnBegun(sign_on_id, begun.state, begun.nonce, begun.code_verifier, sign_ons.settings_tag(row), to)
    value = desk.challenges.make(kept, now=desk.now, good_for=_BACK_WITHIN)
    answer = RedirectResponse(begun.url, 303, {"Cache-Control": "no-store"})
    cookies.set_cookie(request, answer, cookies.SIGN_ON, value, good_for=_BACK_WITHIN)
    return answer


def finish(
    request: Request, desk: Desk, sign_on_id: UUID, *, state: str, code: str, issuer: str | None
) -> RedirectResponse:
    """Raises SignInRefused where this browser did not begin it, or not with this provider; ProviderRefused."""
    shown = desk.challenges.read(SignOnBegun, cookies.read_cookie(request, cookies.SIGN_ON), now=desk.now)
    kept = shown.content
    if kept.sign_on_id != sign_on_id or not hmac.compare_digest(kept.state.encode(), state.encode(errors="replace")):
        raise SignInRefused(remedy="Begin again.")
    attempt = attempts.at_address(address=desk.address)
    desk.count(attempt)
    row = _row(sign_on_id)
    if sign_ons.settings_tag(row) != kept.settings_tag:
        raise SignInRefused("The single sign-on has been changed meanwhile.", remedy="Begin again.")
    if not code:
        raise ProviderRefused("The provider has not signed you in.", remedy="Begin again.")
    returned = Returned(code, issuer, kept.nonce, kept.code_verifier)
    identity = _provider(request, row).finish(returned, secret=desk.secret_of(row))
    person_id = _admit(desk, row, identity)
    _require_nobody_else(request, person_id)
    with desk.as_person(person_id) as session:
        person = require_active(session, person_id)
        shown.spend(session)
        attempt.succeed(session)
        factors = {Factor.SIGN_ON} | ({Factor.SIGN_ON_TWO} if identity.has_two else set())
        text = desk.begin(session, person, factors, Via(row.id, sign_ons.owner_of(row)))
    answer = RedirectResponse(kept.next, 303, {"Cache-Control": "no-store"})
    cookies.clear_cookie(request, answer, cookies.SIGN_ON)
    cookies.set_session(request, answer, text)
    return answer


def _require_nobody_else(request: Request, person_id: UUID) -> None:
    """Any page can send a browser to a provider that names whom its author wants. Raises AnotherIsSignedIn."""
    text = SignInText.parse(cookies.read_cookie(request, cookies.SESSION))
    if text is None:
        return
    try:
        with session_scope(CredentialScope(text.public_id)) as session:
            signed_in, _ = sessions.authenticate(session, text=text, now=utc_now())
    except SignInOver:
        return
    if signed_in.person_id != person_id:
        raise AnotherIsSignedIn(remedy="Sign out first, then begin again.")


def _row(sign_on_id: UUID) -> SignOn:
    with session_scope(CredentialScope(str(sign_on_id))) as session:
        return sign_ons.require_by_id(session, sign_on_id=sign_on_id)


def _provider(request: Request, row: SignOn) -> Provider:
    settings: Settings = request.app.state.settings
    redirect_uri = callback_url(settings, row.id)
    owner = str(row.msp_id or row.tenant_id)
    return Provider(sign_ons.settings_of(row), owner=owner, redirect_uri=redirect_uri, reach=settings.outbound_reach)


def _admit(desk: Desk, row: SignOn, identity: Identity) -> UUID:
    with session_scope(_scope(sign_ons.owner_of(row))) as session:
        desk.note_origin(session)
        return sign_ons.admit(session, row=row, identity=identity)


def _scope(owner: Owner) -> Scope:
    if owner.tenant_id is not None:
        return TenantScope(owner.tenant_id)
    assert owner.msp_id is not None
    return MspScope(owner.msp_id)
