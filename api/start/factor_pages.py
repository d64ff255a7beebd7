"""Pages of `/second-factor`, which add an authenticator app. The pages need no scripts."""

from http import HTTPStatus

from fastapi import APIRouter, Request, Response

from api.application_state import get_signing
from api.forms import FORM_OPENAPI, FormBody, read_fields
from api.own_account import OwnAccount
from api.pages import describe_error, render_page
from api.sign_in_flow import SignInFlow
from api.start.visitor import authenticate_visitor, record_csrf_token, show_errors
from nac.accounts.sign_in import second_factors, sign_ins
from nac.accounts.sign_in.second_factors import Factor, list_second_factors
from nac.accounts.sign_in_errors import SignInRefused
from nac.kit.clock import utc_now

router = APIRouter(prefix="/second-factor", tags=["start pages"], include_in_schema=False)


@router.get("")
@show_errors
def show_factors(request: Request) -> Response:
    me = OwnAccount(authenticate_visitor(request))
    with me.account(confirmed=False) as (session, person):
        methods = list_second_factors(session, person_id=person.id)
    return render_page("second-factor/overview.html", methods=methods, csrf_token=me.signed_in.csrf_token)


@router.post("", openapi_extra=FORM_OPENAPI)
@show_errors
def create_app_secret(request: Request, body: FormBody) -> Response:
    record_csrf_token(request, read_fields(request, body))
    me = OwnAccount(authenticate_visitor(request))
    with me.account() as (session, person):
        made = second_factors.create_totp(session, person=person, seal=get_signing(request).sealer.seal)
        return _render_code_form(me, secret=made.secret, uri=made.provisioning_uri(), status=HTTPStatus.CREATED)


@router.post("/code", openapi_extra=FORM_OPENAPI)
@show_errors
def confirm_app(request: Request, body: FormBody) -> Response:
    """Activate the app with its first code.

    The function also creates recovery codes, in case the person loses the phone.
    """
    fields = read_fields(request, body)
    record_csrf_token(request, fields)
    me = OwnAccount(authenticate_visitor(request))
    SignInFlow(request, Response()).count_confirmation(me.signed_in)
    try:
        codes = _confirm_totp(request, me, fields.get("code", ""))
    except SignInRefused as exc:
        return _render_code_form(me, wrong=describe_error(exc), status=exc.status)
    return render_page("second-factor/recovery-codes.html", codes=codes)


def _render_code_form(me: OwnAccount, *, secret: str = "", uri: str = "", wrong: str = "", status: int) -> Response:
    """Render the form for the app's first code. The form shows the app's key only if `secret` is set."""
    return render_page(
        "second-factor/code.html",
        status=status,
        secret=secret,
        uri=uri,
        wrong=wrong,
        csrf_token=me.signed_in.csrf_token,
    )


def _confirm_totp(request: Request, me: OwnAccount, code: str) -> list[str]:
    actor, unseal = me.signed_in.actor, get_signing(request).sealer.open
    with me.account() as (session, person):
        second_factors.confirm_totp(session, actor=actor, person=person, code=code, unseal=unseal, now=utc_now())
        sign_ins.add_factor(session, signed_in=me.signed_in, person=person, factor=Factor.TOTP)
        return second_factors.create_recovery_codes(session, actor=actor, person=person)
