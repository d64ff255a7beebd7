"""`/sign-up` and `/sign-up/<token>`: to look at a link takes nothing (mail programs do), to post its form uses it."""

from fastapi import APIRouter, Request, Response

from api import cookies, form_pages
from api.sign_up import desk, pages
from api.state import settings_of
from api.v1.sign_up import ASKED
from nac.errors import AdmitError, InvalidInput
from nac.trials.service import TrialsNotOffered

router = APIRouter(tags=["sign-up pages"], include_in_schema=False)


@router.get("/sign-up")
async def show(request: Request) -> Response:
    try:
        desk.desk_of(request).require_offered()
    except AdmitError as exc:
        return form_pages.refused(exc)
    return _ask(request, {})


@router.post("/sign-up", openapi_extra=form_pages.FORM)
def ask(request: Request, body: form_pages.Body) -> Response:
    given: dict[str, str] = {}
    try:
        given = form_pages.fields(request, body)
        desk.ask(request, email=given.get("email", ""), organisation=given.get("organisation", ""))
    except InvalidInput as exc:
        return _ask(request, given, wrong=form_pages.told(exc), status=exc.status)
    except AdmitError as exc:
        return form_pages.refused(exc)
    return pages.asked(ASKED)


@router.get("/sign-up/{token}")
def show_link(token: str, request: Request) -> Response:
    try:
        return pages.confirm(organisation=desk.look(request, token))
    except AdmitError as exc:
        return _no_link(exc)


@router.post("/sign-up/{token}", openapi_extra=form_pages.FORM)
def confirm(token: str, request: Request, body: form_pages.Body) -> Response:
    try:
        # It signs in: another site's page would sign whoever looks at it in to an account of its own making.
        cookies.require_same_origin(request)
        organisation = desk.look(request, token)
        given = form_pages.fields(request, body)
        name, password = given.get("name", ""), given.get("password", "")
        try:
            if password != given.get("again", ""):
                raise InvalidInput("The passwords are not the same.", place="again")
            confirmed = desk.confirm(request, token=token, password=password, name=name)
            return desk.signed_in(request, confirmed) if confirmed.tenant else pages.later()
        except InvalidInput as exc:
            return pages.confirm(organisation=organisation, name=name, wrong=form_pages.told(exc), status=exc.status)
    except AdmitError as exc:
        return _no_link(exc)


def _no_link(exc: AdmitError) -> Response:
    is_offered = not isinstance(exc, TrialsNotOffered)
    return form_pages.refused(exc, *((form_pages.Onward("/sign-up", "Ask for a new link"),) if is_offered else ()))


def _ask(request: Request, given: dict[str, str], *, wrong: str = "", status: int = 200) -> Response:
    terms = settings_of(request).trials
    return pages.ask(days=terms.days, endpoints=terms.endpoints, given=given, wrong=wrong, status=status)
