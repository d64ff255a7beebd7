"""`/second-factor`: an authenticator app is added by forms alone, by whom a rule asks for two factors, say."""

from collections.abc import Callable

from fastapi import APIRouter, Request, Response

from api import form_pages
from api.me import Me
from api.signing_in import Desk
from api.start import factor_pages as pages
from api.start.visiting import answered, note_form, visitor
from api.state import signing_of
from nac.clock import utc_now
from nac.sign_in import recovery_codes, sign_ins, totp
from nac.sign_in.errors import ConfirmationNeeded, SignInRefused
from nac.sign_in.factors import Factor
from nac.sign_in.second_factors import list_second_factors

router = APIRouter(prefix=pages.PATH, tags=["start pages"], include_in_schema=False)


@router.get("")
def show_factors(request: Request) -> Response:
    def shown() -> Response:
        me = Me(visitor(request))
        with me.account(confirmed=False) as (session, person):
            methods = list_second_factors(session, person_id=person.id)
        return pages.factors(methods, csrf_token=me.signed_in.csrf_token)

    return _answered(shown)


@router.post("", openapi_extra=form_pages.FORM)
def begin_app(request: Request, body: form_pages.Body) -> Response:
    def begun() -> Response:
        note_form(request, form_pages.fields(request, body))
        me = Me(visitor(request))
        with me.account() as (session, person):
            made = totp.create_totp(session, person=person, seal=signing_of(request).sealer.seal)
            return pages.app(made.secret, made.provisioning_uri(), csrf_token=me.signed_in.csrf_token)

    return _answered(begun)


@router.post("/code", openapi_extra=form_pages.FORM)
def confirm_app(request: Request, body: form_pages.Body) -> Response:
    """The first code, which is when the app counts; recovery codes come with it, or who loses the phone is out."""

    def confirmed() -> Response:
        given = form_pages.fields(request, body)
        note_form(request, given)
        me = Me(visitor(request))
        Desk(request, Response()).count_confirmation(me.signed_in)
        try:
            codes = _confirm(request, me, given.get("code", ""))
        except SignInRefused as exc:
            return pages.code(wrong=form_pages.told(exc), csrf_token=me.signed_in.csrf_token, status=exc.status)
        return pages.codes(codes)

    return _answered(confirmed)


def _confirm(request: Request, me: Me, code: str) -> list[str]:
    actor, unseal = me.signed_in.actor, signing_of(request).sealer.open
    with me.account() as (session, person):
        totp.confirm_totp(session, actor=actor, person=person, code=code, unseal=unseal, now=utc_now())
        sign_ins.add_factor(session, signed_in=me.signed_in, person=person, factor=Factor.TOTP)
        return recovery_codes.create_recovery_codes(session, actor=actor, person=person)


def _answered(answer: Callable[[], Response]) -> Response:
    def told() -> Response:
        try:
            return answer()
        except ConfirmationNeeded:
            return pages.anew()

    return answered(told)
