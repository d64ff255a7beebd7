"""`/` and `/sign-in`: where a person comes to who follows a mail."""

from collections.abc import Mapping

from fastapi import APIRouter, Request, Response
from fastapi.responses import RedirectResponse

from api import cookies, form_pages
from api.signing_in import Desk, Done
from api.start import pages
from api.start.company import company_sign_on
from api.start.visiting import answered, note_form, visitor
from api.state import settings_of
from nac.audit import service as audit
from nac.db import PersonScope, session_scope
from nac.errors import AdmitError
from nac.sign_in import accessible_places, sign_ins
from nac.sign_in.errors import SignInRefused

router = APIRouter(tags=["start pages"], include_in_schema=False)

_MOST_PLACES = 100
_MOST_KEY_CHARACTERS = 500
_MOST_SLUG_CHARACTERS = 63
_COMPANY = "/sign-in/company"


@router.get("/")
def show_places(request: Request, after: str = "") -> Response:
    """`after`: the last key of the page before."""
    return answered(lambda: _places(request, after[:_MOST_KEY_CHARACTERS]))


@router.get("/sign-in")
async def show_sign_in(request: Request) -> Response:
    return pages.sign_in(trials=settings_of(request).trials.offered)


@router.get(pages.PASSKEY_SCRIPT)
async def show_passkey_script() -> Response:
    headers = {"Cache-Control": "no-cache", "X-Content-Type-Options": "nosniff"}
    return Response(pages.SCRIPT, media_type="text/javascript", headers=headers)


def refused(exc: AdmitError, path: str, *, trials: bool) -> Response:
    """What is wrong with a request of a page that its route never sees."""
    return _no_company(exc, trials=trials) if path == _COMPANY else form_pages.refused(exc)


def _no_company(exc: AdmitError, *, trials: bool, name: str = "") -> Response:
    shown = name[:_MOST_SLUG_CHARACTERS]
    return pages.sign_in(trials=trials, company=shown, company_wrong=form_pages.told(exc), status=exc.status)


@router.get(_COMPANY)
def go_to_company(request: Request, name: str = "") -> Response:
    """The way to the provider of the MSP or tenant of this slug; one that has none is told as one that is not there."""
    try:
        found = company_sign_on(name.strip().lower())
    except AdmitError as exc:
        return _no_company(exc, trials=settings_of(request).trials.offered, name=name)
    # No redirect: browsers hold those behind a form to form-action, which is this origin's (CSP level 3, 6.4.2).
    return pages.to_company(found)


@router.post("/sign-in", openapi_extra=form_pages.FORM)
def sign_in(request: Request, body: form_pages.Body) -> Response:
    given: Mapping[str, str] = {}
    try:
        given = form_pages.fields(request, body)
        found = _desk(request, to := _to_places()).by_password(given.get("email", ""), given.get("password", ""))
    except AdmitError as exc:
        email, trials = given.get("email", ""), settings_of(request).trials.offered
        return pages.sign_in(trials=trials, email=email, wrong=form_pages.told(exc), status=exc.status)
    return to if isinstance(found, Done) else pages.second_factor(found.methods, challenge=found.challenge)


@router.post("/sign-in/{method}", openapi_extra=form_pages.FORM)
def show_second_factor(method: str, request: Request, body: form_pages.Body) -> Response:
    given: Mapping[str, str] = {}
    try:
        given = form_pages.fields(request, body)
        desk = _desk(request, to := _to_places())
        ways = {"totp": desk.by_totp, "recovery-code": desk.by_recovery_code}
        if method not in ways:
            raise SignInRefused(remedy="Begin again.")
        ways[method](given.get("challenge", ""), given.get("code", ""))
    except AdmitError as exc:
        methods = (given.get("methods") or method).split() if given.get("challenge") else []
        return pages.second_factor(
            methods, challenge=given.get("challenge", ""), wrong=form_pages.told(exc), status=exc.status
        )
    return to


@router.post("/sign-out", openapi_extra=form_pages.FORM)
def sign_out(request: Request, body: form_pages.Body) -> Response:
    def leave() -> Response:
        note_form(request, form_pages.fields(request, body))
        asked = visitor(request)
        assert asked.signed_in is not None
        with session_scope(PersonScope(asked.signed_in.person_id)) as session:
            audit.note_origin(session, asked.origin)
            sign_ins.end_own(session, signed_in=asked.signed_in, sign_in_id=asked.signed_in.sign_in_id)
        answer = RedirectResponse("/sign-in", 303)
        cookies.clear_cookie(request, answer, cookies.SESSION)
        return answer

    return answered(leave)


def _places(request: Request, after: str) -> Response:
    asked = visitor(request)
    assert asked.signed_in is not None
    with session_scope(PersonScope(asked.signed_in.person_id)) as session:
        found = accessible_places.list_places(
            session, principal=asked.principal, via=asked.signed_in.via, after=after, limit=_MOST_PLACES + 1
        )
    following = found[_MOST_PLACES - 1].key if len(found) > _MOST_PLACES else ""
    return pages.places(found[:_MOST_PLACES], following=following, csrf_token=asked.signed_in.csrf_token)


def _desk(request: Request, response: Response) -> Desk:
    cookies.require_same_origin(request)
    return Desk(request, response)


def _to_places() -> RedirectResponse:
    return RedirectResponse("/", 303, {"Cache-Control": "no-store"})
