"""`/sign-up` and `/sign-up/<token>`: to look at a link takes nothing (mail programs do), to post its form uses it."""

from typing import Annotated

from fastapi import APIRouter, Depends, Request, Response

from api.bodies import bounded_body
from api.errors import retry_headers, sentence_of
from api.forms import read_texts
from api.json_input import takes
from api.sign_up import desk, pages
from api.state import settings_of
from api.v1.sign_up import ASKED
from nac.errors import AdmitError, InvalidInput

router = APIRouter(tags=["sign-up pages"], include_in_schema=False)

_MOST_FORM_OCTETS = 8 * 1024
_FORM = takes(most_bytes=_MOST_FORM_OCTETS, media_type="application/x-www-form-urlencoded")
Body = Annotated[bytes, Depends(bounded_body(_MOST_FORM_OCTETS))]


@router.get("/sign-up")
def show(request: Request) -> Response:
    try:
        desk.desk_of(request).require_offered()
    except AdmitError as exc:
        return _refused(exc)
    return _ask(request, {})


@router.post("/sign-up", openapi_extra=_FORM)
def ask(request: Request, body: Body) -> Response:
    given: dict[str, str] = {}
    try:
        given = read_texts(request, body)
        desk.ask(request, email=given.get("email", ""), organisation=given.get("organisation", ""))
    except InvalidInput as exc:
        return _ask(request, given, wrong=sentence_of(exc), status=exc.status)
    except AdmitError as exc:
        return _refused(exc)
    return pages.asked(ASKED)


@router.get("/sign-up/{token}")
def show_link(token: str, request: Request) -> Response:
    try:
        return pages.confirm(organisation=desk.look(request, token))
    except AdmitError as exc:
        return _refused(exc)


@router.post("/sign-up/{token}", openapi_extra=_FORM)
def confirm(token: str, request: Request, body: Body) -> Response:
    try:
        organisation = desk.look(request, token)
        given = read_texts(request, body)
        name, password = given.get("name", ""), given.get("password", "")
        try:
            if password != given.get("again", ""):
                raise InvalidInput("The passwords are not the same.", place="again")
            confirmed = desk.confirm(request, token=token, password=password, name=name)
            return desk.signed_in(request, confirmed) if confirmed.tenant else pages.later()
        except InvalidInput as exc:
            return pages.confirm(organisation=organisation, name=name, wrong=sentence_of(exc), status=exc.status)
    except AdmitError as exc:
        return _refused(exc)


def _ask(request: Request, given: dict[str, str], *, wrong: str = "", status: int = 200) -> Response:
    terms = settings_of(request).trials
    return pages.ask(days=terms.days, endpoints=terms.endpoints, given=given, wrong=wrong, status=status)


def _refused(exc: AdmitError) -> Response:
    # What is wrong inside is told by no page.
    if exc.status >= 500 and exc.retry_after_seconds is None:
        raise exc
    return pages.refused(sentence_of(exc), exc.status, retry_headers(exc))
