"""`/`, `/sign-in` and `/start/<tenant>`: where a person comes to who has signed up, or who follows a mail."""

from collections.abc import Callable, Mapping

from fastapi import APIRouter, Request, Response
from fastapi.responses import RedirectResponse

from api import cookies, form_pages
from api.access import NotSignedIn
from api.signing_in import Desk, Done
from api.start import pages
from api.start.visiting import note_form, tenant, visitor
from api.state import settings_of
from api.v1.radius_secret import RadiusServer, Wanted, reveal_secret
from api.v1.self_tests import self_test_of
from nac.accounts.permissions import Permission
from nac.audit import service as audit
from nac.cells import service as cells
from nac.db import PersonScope, session_scope
from nac.errors import AdmitError
from nac.self_tests import service as self_tests
from nac.sign_in import places, sessions
from nac.sign_in.errors import SignInOver, SignInRefused
from nac.tenants import service as tenants

router = APIRouter(tags=["start pages"], include_in_schema=False)


@router.get("/")
def show_places(request: Request) -> Response:
    return _answered(request, lambda: _places(request))


@router.get("/sign-in")
def show_sign_in() -> Response:
    return pages.sign_in()


@router.post("/sign-in", openapi_extra=form_pages.FORM)
def sign_in(request: Request, body: form_pages.Body) -> Response:
    given: Mapping[str, str] = {}
    try:
        given = form_pages.fields(request, body)
        found = _desk(request, to := _to_places()).by_password(given.get("email", ""), given.get("password", ""))
    except AdmitError as exc:
        return pages.sign_in(email=given.get("email", ""), wrong=form_pages.told(exc), status=exc.status)
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
        methods = [method] if given.get("challenge") else []
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
            sessions.end_own(session, signed_in=asked.signed_in, sign_in_id=asked.signed_in.sign_in_id)
        answer = RedirectResponse("/sign-in", 303)
        cookies.clear_cookie(request, answer, cookies.SESSION)
        return answer

    return _answered(request, leave)


@router.get("/start/{tenant}")
def show_tenant(request: Request) -> Response:
    return _answered(request, lambda: _tenant(request))


@router.post("/start/{tenant}/secret", openapi_extra=form_pages.FORM)
def show_secret(request: Request, body: form_pages.Body) -> Response:
    def show() -> Response:
        note_form(request, form_pages.fields(request, body))
        shown = reveal_secret(tenant(request, Permission.SECRET_REVEAL), Wanted.model_validate({}))
        return _tenant(request, shown)

    return _answered(request, show)


@router.post("/start/{tenant}/self-test", openapi_extra=form_pages.FORM)
def test_again(request: Request, body: form_pages.Body) -> Response:
    def start() -> Response:
        note_form(request, form_pages.fields(request, body))
        access = tenant(request, Permission.POLICY_PUBLISH)
        with session_scope(access.scope) as session:
            audit.note_origin(session, access.asked.origin)
            self_tests.start(session, actor=access.actor, tenant_id=access.tenant_id)
        return RedirectResponse(request.url.path.removesuffix("/self-test"), 303)

    return _answered(request, start)


def _places(request: Request) -> Response:
    asked = visitor(request)
    assert asked.signed_in is not None
    with session_scope(PersonScope(asked.signed_in.person_id)) as session:
        found = places.list_places(session, principal=asked.principal, via=asked.signed_in.via)
    return pages.places(found, csrf_token=asked.signed_in.csrf_token)


def _tenant(request: Request, server: RadiusServer | None = None) -> Response:
    access = tenant(request, Permission.TENANT_READ)
    assert access.asked.signed_in is not None
    with access.read() as session:
        row = tenants.require(session, tenant_id=access.tenant_id)
        found = self_tests.list_self_tests(session, tenant_id=access.tenant_id, span=self_tests.ORDERS.first(1))
        if server is None:
            slot = cells.require_slot(session, tenant_id=access.tenant_id)
            address = cells.told_address(session, slot=slot, usual=settings_of(request).radius_host)
            server = RadiusServer(
                address=address, auth_port=slot.auth_port, acct_port=slot.acct_port, secret="", text=""
            )
        return pages.tenant(
            slug=row.slug,
            name=row.name,
            server=server,
            test=self_test_of(found[0]) if found else None,
            csrf_token=access.asked.signed_in.csrf_token,
            may={
                "reveal": Permission.SECRET_REVEAL in access.held,
                "test": Permission.POLICY_PUBLISH in access.held,
            },
        )


def _answered(request: Request, answer: Callable[[], Response]) -> Response:
    try:
        return answer()
    except (NotSignedIn, SignInOver):
        return RedirectResponse("/sign-in", 303)
    except AdmitError as exc:
        return form_pages.refused(exc)


def _desk(request: Request, response: Response) -> Desk:
    cookies.require_same_origin(request)
    return Desk(request, response)


def _to_places() -> RedirectResponse:
    return RedirectResponse("/", 303, {"Cache-Control": "no-store"})
