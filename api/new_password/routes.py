"""Routes of `/new-password` and `/new-password/<token>`.

Only a POST uses a link: mail programs open links for previews.
"""

from typing import Annotated

from fastapi import APIRouter, Depends, Request, Response

from api import form_pages
from api.new_password import pages
from api.sign_in_flow import SignInFlow
from api.v1.sign_in import LINK_SENT_SENTENCE, open_sign_in_flow
from nac.kit.errors import AdmitError, InvalidInput
from nac.kit.validation import require_email

router = APIRouter(tags=["new-password pages"], include_in_schema=False)

_NEW_LINK = form_pages.PageLink("/new-password", "Request a new link")
_SignInFlow = Annotated[SignInFlow, Depends(open_sign_in_flow)]


@router.get("/new-password")
async def show_email_form() -> Response:
    return pages.render_email_form()


@router.post("/new-password", openapi_extra=form_pages.FORM_OPENAPI)
def request_link(desk: _SignInFlow, request: Request, body: form_pages.FormBody) -> Response:
    email = ""
    try:
        email = form_pages.read_fields(request, body).get("email", "")
        desk.ask_for_link(require_email(email))
    except InvalidInput as exc:
        return pages.render_email_form(email=email, wrong=form_pages.describe_error(exc), status=exc.status)
    except AdmitError as exc:
        return form_pages.render_error_page(exc)
    return pages.render_link_sent(LINK_SENT_SENTENCE)


@router.get("/new-password/{token}")
def show_password_form(desk: _SignInFlow, token: str) -> Response:
    try:
        desk.require_valid_link(token)
    except AdmitError as exc:
        return form_pages.render_error_page(exc, _NEW_LINK)
    return pages.render_password_form()


@router.post("/new-password/{token}", openapi_extra=form_pages.FORM_OPENAPI)
def update_password(
    desk: _SignInFlow, token: str, request: Request, response: Response, body: form_pages.FormBody
) -> Response:
    try:
        given = form_pages.read_fields(request, body)
        if given.get("password", "") != given.get("again", ""):
            raise InvalidInput("The passwords do not match.", place="again")
        desk.set_password(token, given.get("password", ""))
    except InvalidInput as exc:
        return pages.render_password_form(wrong=form_pages.describe_error(exc), status=exc.status)
    except AdmitError as exc:
        return form_pages.render_error_page(exc, _NEW_LINK)
    answer = pages.render_password_set()
    # The cookies make this a known browser of the person.
    answer.headers.raw.extend((name, value) for name, value in response.headers.raw if name == b"set-cookie")
    return answer
