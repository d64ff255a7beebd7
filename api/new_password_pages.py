"""Routes of `/new-password` and `/new-password/<token>`.

Only a POST uses a link, because mail programs open links for previews.
"""

from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Depends, Request, Response

from api.forms import FORM_OPENAPI, FormBody, read_fields
from api.pages import PageLink, describe_error, render_error_page, render_page
from api.sign_in_flow import SignInFlow
from api.v1.sign_in import LINK_SENT_SENTENCE, open_sign_in_flow
from nac.accounts.people.service import MINIMUM_PASSWORD_CHARACTERS
from nac.kit.errors import AdmitError, InvalidInput
from nac.kit.validation import require_email

router = APIRouter(tags=["new-password pages"], include_in_schema=False)

_NEW_LINK = PageLink("/new-password", "Request a new link")
_SignInFlow = Annotated[SignInFlow, Depends(open_sign_in_flow)]


@router.get("/new-password")
async def show_email_form() -> Response:
    return _render_email_form()


@router.post("/new-password", openapi_extra=FORM_OPENAPI)
def request_link(desk: _SignInFlow, request: Request, body: FormBody) -> Response:
    email = ""
    try:
        email = read_fields(request, body).get("email", "")
        desk.ask_for_link(require_email(email))
    except InvalidInput as exc:
        return _render_email_form(email=email, wrong=describe_error(exc), status=exc.status)
    except AdmitError as exc:
        return render_error_page(exc)
    return render_page("message.html", status=HTTPStatus.ACCEPTED, title="Check your mail", sentence=LINK_SENT_SENTENCE)


@router.get("/new-password/{token}")
def show_password_form(desk: _SignInFlow, token: str) -> Response:
    try:
        desk.require_valid_link(token)
    except AdmitError as exc:
        return render_error_page(exc, _NEW_LINK)
    return _render_password_form()


@router.post("/new-password/{token}", openapi_extra=FORM_OPENAPI)
def update_password(desk: _SignInFlow, token: str, request: Request, response: Response, body: FormBody) -> Response:
    try:
        fields = read_fields(request, body)
        if fields.get("password", "") != fields.get("again", ""):
            raise InvalidInput("The passwords do not match.", place="again")
        desk.set_password(token, fields.get("password", ""))
    except InvalidInput as exc:
        return _render_password_form(wrong=describe_error(exc), status=exc.status)
    except AdmitError as exc:
        return render_error_page(exc, _NEW_LINK)
    answer = render_page("new-password/changed.html")
    # The cookies make this a known browser of the person.
    answer.headers.raw.extend((name, value) for name, value in response.headers.raw if name == b"set-cookie")
    return answer


def _render_email_form(*, email: str = "", wrong: str = "", status: int = HTTPStatus.OK) -> Response:
    return render_page("new-password/request.html", status=status, email=email, wrong=wrong)


def _render_password_form(*, wrong: str = "", status: int = HTTPStatus.OK) -> Response:
    return render_page("new-password/choose.html", status=status, minimum=MINIMUM_PASSWORD_CHARACTERS, wrong=wrong)
