"""Transactions of a single sign-on. No transaction is open during requests to the provider."""

import hmac
import logging
from dataclasses import dataclass
from datetime import timedelta
from urllib.parse import urlencode, urlsplit
from uuid import UUID

from fastapi import Request, Response
from fastapi.responses import RedirectResponse

from api import cookies
from api.errors import build_retry_headers, redact_error
from api.pages import render_page
from api.response_headers import request_id_of
from api.sign_in_flow import SignInFlow, require_active_person
from nac.accounts.sign_in import attempts, sign_ins
from nac.accounts.sign_in.challenges import OpenedChallenge, SignOnChallenge
from nac.accounts.sign_in.second_factors import Factor
from nac.accounts.sign_in.secret_texts import SignInText
from nac.accounts.sign_in.sign_ins import SignOnOrigin
from nac.accounts.sign_in_errors import (
    AnotherIsSignedIn,
    SignInOver,
    SignInRefused,
    SignOnChanged,
    SignOnNotBegun,
    TooLateToSignIn,
)
from nac.accounts.sign_ons import service as sign_ons
from nac.accounts.sign_ons.code_flow import AuthorizationResponse, ProviderIdentity, SignOnProvider, build_denial
from nac.accounts.sign_ons.errors import ProviderDenied, ProviderRefused, ProviderUnavailable
from nac.core.access.grants import Owner
from nac.kit.clock import utc_now
from nac.kit.db import CredentialScope, MspScope, Scope, TenantScope, session_scope
from nac.kit.errors import AdmitError
from nac.kit.settings import Settings
from nac.models import SignOn

_log = logging.getLogger("admit.api")
_CHALLENGE_LIFETIME = timedelta(minutes=10)


def callback_url(settings: Settings, sign_on_id: UUID) -> str:
    """Build the callback URL.

    Each provider has a different callback URL, which prevents mix-up attacks (RFC 9700 4.4).
    """
    return f"{settings.portal_url}/v1/sign-on/{sign_on_id}/callback"


def begin_url(settings: Settings, sign_on_id: UUID) -> str:
    return f"{settings.portal_url}/v1/sign-on/{sign_on_id}/begin"


def start_sign_on(request: Request, desk: SignInFlow, sign_on_id: UUID, *, to: str, on_error: str) -> Response:
    """Redirect the browser to the provider. A cookie stores state and nonce until the provider's response."""
    try:
        row = _require_sign_on(sign_on_id)
        if cookies.is_from_other_site(request):
            return _render_confirmation(request, row)
        begun = _build_provider(request, row).begin()
    except AdmitError as exc:
        return _handle_failure(request, exc, on_error)
    tag = sign_ons.compute_settings_tag(row)
    kept = SignOnChallenge(sign_on_id, begun.state, begun.nonce, begun.code_verifier, tag, to, on_error)
    value = desk.challenges.make(kept, now=desk.now, good_for=_CHALLENGE_LIFETIME)
    answer = RedirectResponse(begun.url, 303, {"Cache-Control": "no-store"})
    cookies.set_cookie(request, answer, cookies.SIGN_ON_COOKIE, value, good_for=_CHALLENGE_LIFETIME)
    return answer


def _render_confirmation(request: Request, row: SignOn) -> Response:
    """Ask the person to confirm the sign-in.

    Without this page, a malicious site could sign visitors in with its own provider.
    """
    provider = urlsplit(sign_ons.parse_settings(row).issuer).netloc
    again = f"{request.url.path}?{request.url.query}"
    return render_page("sign-in/sign-on-confirmation.html", provider=provider, again=again)


@dataclass(frozen=True, slots=True)
class ProviderCallback:
    """Response of the provider, which the browser sends to Admit."""

    state: str
    code: str
    # Error instead of a code.
    error: str
    issuer: str | None


def finish_sign_on(request: Request, desk: SignInFlow, sign_on_id: UUID, back: ProviderCallback) -> Response:
    """Sign the person in. If this fails, show the error, or redirect to `on_error` with the error code."""
    on_error = ""
    try:
        shown = _require_challenge(request, desk, sign_on_id, back.state)
        on_error = shown.content.on_error
        text = _complete_sign_in(request, desk, shown, back)
    except AdmitError as exc:
        return _handle_failure(request, exc, on_error)
    answer = RedirectResponse(shown.content.next, 303, {"Cache-Control": "no-store"})
    cookies.clear_cookie(request, answer, cookies.SIGN_ON_COOKIE)
    cookies.set_session_cookie(request, answer, text)
    return answer


def _require_challenge(
    request: Request, desk: SignInFlow, sign_on_id: UUID, state: str
) -> OpenedChallenge[SignOnChallenge]:
    """Return the sign-on that this browser started with this provider. Raises SignOnNotBegun and TooLateToSignIn."""
    try:
        shown = desk.challenges.read(
            SignOnChallenge, cookies.read_cookie(request, cookies.SIGN_ON_COOKIE), now=desk.now
        )
    except TooLateToSignIn:
        raise
    except SignInRefused as exc:
        raise SignOnNotBegun(remedy="Allow cookies in this browser, then start the sign-in again.") from exc
    kept = shown.content
    if kept.sign_on_id != sign_on_id or not hmac.compare_digest(kept.state.encode(), state.encode(errors="replace")):
        raise SignOnNotBegun(remedy="Start the sign-in again.")
    return shown


def _complete_sign_in(
    request: Request, desk: SignInFlow, shown: OpenedChallenge[SignOnChallenge], back: ProviderCallback
) -> SignInText:
    kept = shown.content
    attempt = attempts.address_attempt(address=desk.address)
    desk.count(attempt)
    row = _require_sign_on(kept.sign_on_id)
    try:
        if sign_ons.compute_settings_tag(row) != kept.settings_tag:
            raise SignOnChanged(remedy="Start the sign-in again.")
        if not back.code:
            raise build_denial(back.error) if back.error else ProviderDenied(remedy="Start the sign-in again.")
        returned = AuthorizationResponse(back.code, back.issuer, kept.nonce, kept.code_verifier)
        identity = _build_provider(request, row).finish(returned, secret=desk.open_client_secret(row))
        person_id = _resolve_person(desk, row, identity)
        _require_same_person(request, person_id)
        with desk.as_person(person_id) as session:
            person = require_active_person(session, person_id)
            shown.spend(session)
            attempt.succeed(session)
            factors = {Factor.SIGN_ON} | ({Factor.SIGN_ON_TWO} if identity.has_two_factors else set())
            return desk.begin(session, person, factors, SignOnOrigin(row.id, sign_ons.get_owner(row)))
    except (ProviderRefused, ProviderUnavailable, SignInRefused) as exc:
        desk.note_failure(row.id, exc.code)
        raise


def _handle_failure(request: Request, exc: AdmitError, on_error: str) -> Response:
    """Redirect to `on_error` with the error code in the parameter `error`.

    Without `on_error`, the response is a page for browsers, or problem details (RFC 9457) for programs.
    """
    if isinstance(exc, ProviderUnavailable):
        # Anyone can start a sign-on, so resolved names and open ports go only to the log.
        _log.warning("single sign-on %s, request %s: %s", request.url.path, request_id_of(request), exc)
        exc = ProviderUnavailable(remedy="Try again later. If the problem continues, contact your administrator.")
    if on_error:
        asked = {"error": exc.code, "request_id": request_id_of(request)}
        query = f"{'&' if '?' in on_error else '?'}{urlencode(asked)}"
        return RedirectResponse(f"{on_error}{query}", 303, {"Cache-Control": "no-store"})
    if "text/html" in request.headers.get("accept", ""):
        shown = redact_error(request, exc)
        return render_page(
            "sign-in/sign-on-error.html",
            status=exc.status,
            headers=build_retry_headers(exc),
            sentence=f"{shown.detail} {shown.remedy}".strip(),
            code=exc.code,
            request_id=request_id_of(request),
        )
    raise exc


def _require_same_person(request: Request, person_id: UUID) -> None:
    """Raise AnotherIsSignedIn if this browser is signed in as another person.

    Without this check, a malicious site could replace the sign-in with a sign-in by its own provider.
    """
    text = SignInText.parse(cookies.read_cookie(request, cookies.SESSION_COOKIE))
    if text is None:
        return
    try:
        with session_scope(CredentialScope(text.public_id)) as session:
            signed_in, _ = sign_ins.authenticate(session, text=text, now=utc_now())
    except SignInOver:
        return
    if signed_in.person_id != person_id:
        raise AnotherIsSignedIn(remedy="Sign out, then start the sign-in again.")


def _require_sign_on(sign_on_id: UUID) -> SignOn:
    with session_scope(CredentialScope(str(sign_on_id))) as session:
        return sign_ons.require_by_id(session, sign_on_id=sign_on_id)


def _build_provider(request: Request, row: SignOn) -> SignOnProvider:
    settings: Settings = request.app.state.settings
    redirect_uri = callback_url(settings, row.id)
    owner = str(row.msp_id or row.tenant_id)
    return SignOnProvider(
        sign_ons.parse_settings(row), owner=owner, redirect_uri=redirect_uri, reach=settings.outbound_reach
    )


def _resolve_person(desk: SignInFlow, row: SignOn, identity: ProviderIdentity) -> UUID:
    with session_scope(_owner_scope(sign_ons.get_owner(row))) as session:
        desk.note_origin(session)
        return sign_ons.resolve_person(session, row=row, identity=identity)


def _owner_scope(owner: Owner) -> Scope:
    if owner.tenant_id is not None:
        return TenantScope(owner.tenant_id)
    assert owner.msp_id is not None
    return MspScope(owner.msp_id)
