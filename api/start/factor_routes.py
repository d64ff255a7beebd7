"""Routes of `/second-factor`: add an authenticator app, with forms only."""

from collections.abc import Callable

from fastapi import APIRouter, Request, Response

from api import form_pages
from api.application_state import get_signing
from api.own_account import OwnAccount
from api.sign_in_flow import SignInFlow
from api.start import factor_pages as pages
from api.start.visitor import authenticate_visitor, record_csrf_token, render_page
from nac.accounts.sign_in import recovery_codes, sign_ins, totp
from nac.accounts.sign_in.factors import Factor
from nac.accounts.sign_in.second_factors import list_second_factors
from nac.accounts.sign_in_errors import ConfirmationNeeded, SignInRefused
from nac.kit.clock import utc_now

router = APIRouter(prefix=pages.PATH, tags=["start pages"], include_in_schema=False)


@router.get("")
def show_factors(request: Request) -> Response:
    def shown() -> Response:
        me = OwnAccount(authenticate_visitor(request))
        with me.account(confirmed=False) as (session, person):
            methods = list_second_factors(session, person_id=person.id)
        return pages.render_factors(methods, csrf_token=me.signed_in.csrf_token)

    return _render_page(shown)


@router.post("", openapi_extra=form_pages.FORM_OPENAPI)
def create_app_secret(request: Request, body: form_pages.FormBody) -> Response:
    def begun() -> Response:
        record_csrf_token(request, form_pages.read_fields(request, body))
        me = OwnAccount(authenticate_visitor(request))
        with me.account() as (session, person):
            made = totp.create_totp(session, person=person, seal=get_signing(request).sealer.seal)
            return pages.render_app_secret(made.secret, made.provisioning_uri(), csrf_token=me.signed_in.csrf_token)

    return _render_page(begun)


@router.post("/code", openapi_extra=form_pages.FORM_OPENAPI)
def confirm_app(request: Request, body: form_pages.FormBody) -> Response:
    """Activate the app with its first code. Creates recovery codes for the case that the phone is lost."""

    def confirmed() -> Response:
        given = form_pages.read_fields(request, body)
        record_csrf_token(request, given)
        me = OwnAccount(authenticate_visitor(request))
        SignInFlow(request, Response()).count_confirmation(me.signed_in)
        try:
            codes = _confirm_totp(request, me, given.get("code", ""))
        except SignInRefused as exc:
            return pages.render_code_form(
                wrong=form_pages.describe_error(exc), csrf_token=me.signed_in.csrf_token, status=exc.status
            )
        return pages.render_recovery_codes(codes)

    return _render_page(confirmed)


def _confirm_totp(request: Request, me: OwnAccount, code: str) -> list[str]:
    actor, unseal = me.signed_in.actor, get_signing(request).sealer.open
    with me.account() as (session, person):
        totp.confirm_totp(session, actor=actor, person=person, code=code, unseal=unseal, now=utc_now())
        sign_ins.add_factor(session, signed_in=me.signed_in, person=person, factor=Factor.TOTP)
        return recovery_codes.create_recovery_codes(session, actor=actor, person=person)


def _render_page(answer: Callable[[], Response]) -> Response:
    def told() -> Response:
        try:
            return answer()
        except ConfirmationNeeded:
            return pages.render_sign_in_again()

    return render_page(told)
