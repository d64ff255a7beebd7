"""`/new-password` and `/new-password/<token>`: to look at a link takes nothing (mail programs do), to post its form
uses it."""

from typing import Annotated

from fastapi import APIRouter, Depends, Request, Response

from api import form_pages
from api.new_password import pages
from api.signing_in import Desk
from api.v1.sign_in import ASKED, desk_of
from nac.errors import AdmitError, InvalidInput
from nac.people.service import require_email

router = APIRouter(tags=["new-password pages"], include_in_schema=False)

_ANOTHER_LINK = form_pages.Onward("/new-password", "Ask for a new link")
_Desk = Annotated[Desk, Depends(desk_of)]


@router.get("/new-password")
async def show() -> Response:
    return pages.ask()


@router.post("/new-password", openapi_extra=form_pages.FORM)
def ask(desk: _Desk, request: Request, body: form_pages.Body) -> Response:
    email = ""
    try:
        email = form_pages.fields(request, body).get("email", "")
        desk.ask_for_link(require_email(email))
    except InvalidInput as exc:
        return pages.ask(email=email, wrong=form_pages.told(exc), status=exc.status)
    except AdmitError as exc:
        return form_pages.refused(exc)
    return pages.asked(ASKED)


@router.get("/new-password/{token}")
def show_link(desk: _Desk, token: str) -> Response:
    try:
        desk.look_at_link(token)
    except AdmitError as exc:
        return form_pages.refused(exc, _ANOTHER_LINK)
    return pages.choose()


@router.post("/new-password/{token}", openapi_extra=form_pages.FORM)
def choose(desk: _Desk, token: str, request: Request, response: Response, body: form_pages.Body) -> Response:
    try:
        given = form_pages.fields(request, body)
        if given.get("password", "") != given.get("again", ""):
            raise InvalidInput("The passwords are not the same.", place="again")
        desk.set_password(token, given.get("password", ""))
    except InvalidInput as exc:
        return pages.choose(wrong=form_pages.told(exc), status=exc.status)
    except AdmitError as exc:
        return form_pages.refused(exc, _ANOTHER_LINK)
    answer = pages.is_set()
    # The browser is one of the person's from now on.
    answer.headers.raw.extend((name, value) for name, value in response.headers.raw if name == b"set-cookie")
    return answer
