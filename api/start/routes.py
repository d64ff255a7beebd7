"""`/`, `/sign-in` and `/start/<tenant>`: where a person comes to who has signed up, or who follows a mail."""

from collections.abc import Callable, Mapping
from typing import Annotated

from fastapi import APIRouter, Depends, Request, Response
from fastapi.responses import RedirectResponse

from api import cookies
from api.access import NotSignedIn
from api.bodies import bounded_body
from api.errors import retry_headers, sentence_of
from api.forms import read_texts
from api.json_input import takes
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

_MOST_FORM_OCTETS = 8 * 1024
_FORM = takes(most_bytes=_MOST_FORM_OCTETS, media_type="application/x-www-form-urlencoded")
_Body = Annotated[bytes, Depends(bounded_body(_MOST_FORM_OCTETS))]


@router.get("/")
def show_places(request: Request) -> Response:
    return _answered(request, lambda: _places(request))


@router.get("/sign-in")
def show_sign_in() -> Response:
    return pages.sign_in()


@router.post("/sign-in", openapi_extra=_FORM)
def sign_in(request: Request, body: _Body) -> Response:
    given: Mapping[str, str] = {}
    try:
        given = read_texts(request, body)
        found = _desk(request, to := _to_places()).by_password(given.get("email", ""), given.get("password", ""))
    except AdmitError as exc:
        return pages.sign_in(email=given.get("email", ""), wrong=sentence_of(exc), status=exc.status)
    return to if isinstance(found, Done) else pages.second_factor(found.methods, challenge=found.challenge)


@router.post("/sign-in/{method}", openapi_extra=_FORM)
def show_second_factor(method: str, request: Request, body: _Body) -> Response:
    given: Mapping[str, str] = {}
    try:
        given = read_texts(request, body)
        desk = _desk(request, to := _to_places())
        ways = {"totp": desk.by_totp, "recovery-code": desk.by_recovery_code}
        if method not in ways:
            raise SignInRefused(remedy="Begin again.")
        ways[method](given.get("challenge", ""), given.get("code", ""))
    except AdmitError as exc:
        methods = [method] if given.get("challenge") else []
        return pages.second_factor(
            methods, challenge=given.get("challenge", ""), wrong=sentence_of(exc), status=exc.status
        )
    return to


@router.post("/sign-out", openapi_extra=_FORM)
def sign_out(request: Request, body: _Body) -> Response:
    def leave() -> Response:
        note_form(request, read_texts(request, body))
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


@router.post("/start/{tenant}/secret", openapi_extra=_FORM)
def show_secret(request: Request, body: _Body) -> Response:
    def show() -> Response:
        note_form(request, read_texts(request, body))
        shown = reveal_secret(tenant(request, Permission.SECRET_REVEAL), Wanted.model_validate({}))
        return _tenant(request, shown)

    return _answered(request, show)


@router.post("/start/{tenant}/self-test", openapi_extra=_FORM)
def test_again(request: Request, body: _Body) -> Response:
    def start() -> Response:
        note_form(request, read_texts(request, body))
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
        found = self_tests.list_self_tests(session, tenant_id=access.tenant_id, limit=1)
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
        # What is wrong inside is told by no page.
        if exc.status >= 500 and exc.retry_after_seconds is None:
            raise
        return pages.refused(sentence_of(exc), exc.status, retry_headers(exc))


def _desk(request: Request, response: Response) -> Desk:
    cookies.require_same_origin(request)
    return Desk(request, response)


def _to_places() -> RedirectResponse:
    return RedirectResponse("/", 303, {"Cache-Control": "no-store"})
