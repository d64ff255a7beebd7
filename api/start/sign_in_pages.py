"""Pages of `/` and `/sign-in`."""

from collections.abc import Collection, Mapping
from http import HTTPStatus
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from fastapi import APIRouter, Request, Response
from fastapi.responses import RedirectResponse

from api import cookies, portal
from api.application_state import get_settings
from api.forms import FORM_OPENAPI, FormBody, read_fields
from api.pages import describe_error, render_error_page, render_page
from api.sign_in_flow import CompletedSignIn, SignInFlow
from api.start.visitor import authenticate_visitor, record_csrf_token, show_errors
from nac.accounts.sign_in import accessible_places, sign_ins
from nac.accounts.sign_in_errors import SignInRefused
from nac.accounts.sign_ons import service
from nac.accounts.sign_ons import service as sign_ons
from nac.core.access.grants import Owner
from nac.core.access.tenant_lookup import find_msp, find_tenant
from nac.core.audit import service as audit
from nac.kit.db import CredentialScope, MspScope, PersonScope, Scope, TenantScope, session_scope
from nac.kit.errors import AdmitError, NotFound

router = APIRouter(tags=["start pages"], include_in_schema=False)
_MAX_PLACES = 100
_MAX_KEY_CHARACTERS = 500
_MAX_SLUG_CHARACTERS = 63
_COMPANY_PATH = "/sign-in/company"
PASSKEY_SCRIPT_PATH = "/sign-in/passkey.js"
PASSKEY_SCRIPT = Path(__file__).with_name("passkey.js").read_text(encoding="utf-8")
_CODE_LABELS = {"totp": "Code from your authenticator app", "recovery-code": "Or one of your recovery codes"}


class NoSignOnHere(NotFound):
    """No company with this name uses single sign-on."""


class CompanySignOn(NamedTuple):
    # Path on this origin.
    begin: str
    # Host name of the provider.
    provider: str


@router.get("/")
@show_errors
def show_places(request: Request, after: str = "") -> Response:
    """Open the portal. Without a built portal, list the signed-in person's tenants.

    `after` is the last key on the previous page.
    """
    asked = authenticate_visitor(request)
    if portal.is_built():
        return RedirectResponse(f"{portal.PORTAL_PATH}/", 303)
    assert asked.signed_in is not None
    with session_scope(PersonScope(asked.signed_in.person_id)) as session:
        found = accessible_places.list_places(
            session,
            principal=asked.principal,
            via=asked.signed_in.via,
            after=after[:_MAX_KEY_CHARACTERS],
            limit=_MAX_PLACES + 1,
        )
    return render_page(
        "tenants.html",
        tenants=[place for place in found[:_MAX_PLACES] if place.kind == "tenant"],
        following=found[_MAX_PLACES - 1].key if len(found) > _MAX_PLACES else "",
        csrf_token=asked.signed_in.csrf_token,
    )


@router.get("/sign-in")
async def show_sign_in(request: Request) -> Response:
    return render_sign_in(trials=get_settings(request).trials.offered)


@router.get(PASSKEY_SCRIPT_PATH)
async def show_passkey_script() -> Response:
    headers = {"Cache-Control": "no-cache", "X-Content-Type-Options": "nosniff"}
    return Response(PASSKEY_SCRIPT, media_type="text/javascript", headers=headers)


def render_request_error(exc: AdmitError, path: str, *, trials: bool) -> Response:
    """Show an error of a request that failed before the function of the route ran."""
    return _render_company_error(exc, trials=trials) if path == _COMPANY_PATH else render_error_page(exc)


def _render_company_error(exc: AdmitError, *, trials: bool, name: str = "") -> Response:
    shown = name[:_MAX_SLUG_CHARACTERS]
    return render_sign_in(trials=trials, company=shown, company_wrong=describe_error(exc), status=exc.status)


@router.get(_COMPANY_PATH)
def go_to_company(request: Request, name: str = "") -> Response:
    """Show a link to the sign-on provider of an MSP or tenant.

    Unknown slugs, and slugs without a provider, get the same error.
    """
    try:
        found = find_company_sign_on(name.strip().lower())
    except AdmitError as exc:
        return _render_company_error(exc, trials=get_settings(request).trials.offered, name=name)
    # No redirect: `form-action 'self'` also blocks redirects of a form to other origins (CSP level 3, 6.4.2).
    return render_page("sign-in/company.html", provider=found.provider, begin=found.begin)


@router.post("/sign-in", openapi_extra=FORM_OPENAPI)
def sign_in(request: Request, body: FormBody) -> Response:
    fields: Mapping[str, str] = {}
    try:
        fields = read_fields(request, body)
        found = _open_flow(request, to := _redirect_to_places()).by_password(
            fields.get("email", ""), fields.get("password", "")
        )
    except AdmitError as exc:
        email, trials = fields.get("email", ""), get_settings(request).trials.offered
        return render_sign_in(trials=trials, email=email, wrong=describe_error(exc), status=exc.status)
    return to if isinstance(found, CompletedSignIn) else render_second_factor(found.methods, challenge=found.challenge)


@router.post("/sign-in/{method}", openapi_extra=FORM_OPENAPI)
def check_second_factor(method: str, request: Request, body: FormBody) -> Response:
    fields: Mapping[str, str] = {}
    try:
        fields = read_fields(request, body)
        desk = _open_flow(request, to := _redirect_to_places())
        ways = {"totp": desk.by_totp, "recovery-code": desk.by_recovery_code}
        if method not in ways:
            raise SignInRefused(remedy="Start the sign-in again.")
        ways[method](fields.get("challenge", ""), fields.get("code", ""))
    except AdmitError as exc:
        methods = (fields.get("methods") or method).split() if fields.get("challenge") else []
        return render_second_factor(
            methods, challenge=fields.get("challenge", ""), wrong=describe_error(exc), status=exc.status
        )
    return to


@router.post("/sign-out", openapi_extra=FORM_OPENAPI)
@show_errors
def sign_out(request: Request, body: FormBody) -> Response:
    record_csrf_token(request, read_fields(request, body))
    asked = authenticate_visitor(request)
    assert asked.signed_in is not None
    with session_scope(PersonScope(asked.signed_in.person_id)) as session:
        audit.set_origin(session, asked.origin)
        sign_ins.end_own(session, signed_in=asked.signed_in, sign_in_id=asked.signed_in.sign_in_id)
    answer = RedirectResponse("/sign-in", 303)
    cookies.clear_cookie(request, answer, cookies.SESSION_COOKIE)
    return answer


def render_sign_in(
    *,
    trials: bool,
    email: str = "",
    wrong: str = "",
    company: str = "",
    company_wrong: str = "",
    status: int = HTTPStatus.OK,
) -> Response:
    """Render the sign-in page. `trials` adds a link to the sign-up.

    `company_wrong` is the error in the form for the company.
    """
    return render_page(
        "sign-in/form.html",
        status=status,
        script=PASSKEY_SCRIPT_PATH,
        trials=trials,
        email=email,
        wrong=wrong,
        company=company,
        company_wrong=company_wrong,
    )


def render_second_factor(
    methods: Collection[str], *, challenge: str, wrong: str = "", status: int = HTTPStatus.OK
) -> Response:
    """Render a form for each method that needs no script, and a button for a passkey.

    After an error, the page still offers all methods, because a person without the phone needs a recovery code.
    """
    offered = [method for method in (*_CODE_LABELS, "passkey") if method in methods]
    return render_page(
        "sign-in/second-factor.html",
        status=status,
        script=PASSKEY_SCRIPT_PATH if "passkey" in offered else "",
        methods=offered,
        codes=[(method, label) for method, label in _CODE_LABELS.items() if method in offered],
        challenge=challenge,
        wrong=wrong,
    )


def find_company_sign_on(slug: str) -> CompanySignOn:
    """Find the single sign-on of the MSP or tenant with this slug.

    Raises NoSignOnHere if the slug is unknown, or if the MSP or tenant has no single sign-on.
    """
    for owner in _find_owners(slug):
        with session_scope(_owner_scope(owner)) as session:
            row = service.get(session, owner)
        if row is not None:
            return CompanySignOn(f"/v1/sign-on/{row.id}/begin", urlsplit(sign_ons.parse_settings(row).issuer).netloc)
    raise NoSignOnHere(remedy="Ask your network administrator for the name, or sign in with your password.")


def _open_flow(request: Request, response: Response) -> SignInFlow:
    cookies.require_same_origin(request)
    return SignInFlow(request, response)


def _redirect_to_places() -> RedirectResponse:
    return RedirectResponse("/", 303, {"Cache-Control": "no-store"})


def _owner_scope(owner: Owner) -> Scope:
    if owner.msp_id is not None:
        return MspScope(owner.msp_id)
    assert owner.tenant_id is not None
    return TenantScope(owner.tenant_id)


def _find_owners(slug: str) -> list[Owner]:
    """Find the MSP and the tenant with this slug. The MSP's provider takes precedence over the tenant's provider."""
    if not 1 <= len(slug) <= _MAX_SLUG_CHARACTERS or "\0" in slug:
        return []
    with session_scope(CredentialScope("")) as session:
        msp, tenant = find_msp(session, slug), find_tenant(session, slug)
    found = [] if msp is None else [Owner(msp.msp_id)]
    return found if tenant is None else [*found, Owner(tenant_id=tenant.tenant_id)]
