"""Routes of `/sign-up` and `/sign-up/<token>`.

Only a POST uses a link: mail programs open links for previews.
"""

from fastapi import APIRouter, Request, Response

from api import cookies, form_pages
from api.application_state import get_settings
from api.sign_up import pages, sign_up_flow
from api.v1.sign_up import LINK_SENT_SENTENCE
from nac.kit.errors import AdmitError, InvalidInput
from nac.onboarding.trials.service import TrialsNotOffered

router = APIRouter(tags=["sign-up pages"], include_in_schema=False)


@router.get("/sign-up")
async def show_sign_up_form(request: Request) -> Response:
    try:
        sign_up_flow.build_sign_up_context(request).require_offered()
    except AdmitError as exc:
        return form_pages.render_error_page(exc)
    return _render_sign_up_form(request, {})


@router.post("/sign-up", openapi_extra=form_pages.FORM_OPENAPI)
def request_sign_up(request: Request, body: form_pages.FormBody) -> Response:
    given: dict[str, str] = {}
    try:
        given = form_pages.read_fields(request, body)
        sign_up_flow.request_sign_up(request, email=given.get("email", ""), organisation=given.get("organisation", ""))
    except InvalidInput as exc:
        return _render_sign_up_form(request, given, wrong=form_pages.describe_error(exc), status=exc.status)
    except AdmitError as exc:
        return form_pages.render_error_page(exc)
    return pages.render_link_sent(LINK_SENT_SENTENCE)


@router.get("/sign-up/{token}")
def show_confirmation_form(token: str, request: Request) -> Response:
    try:
        return pages.render_confirmation_form(organisation=sign_up_flow.require_organisation(request, token))
    except AdmitError as exc:
        return _render_link_error(exc)


@router.post("/sign-up/{token}", openapi_extra=form_pages.FORM_OPENAPI)
def confirm_sign_up(token: str, request: Request, body: form_pages.FormBody) -> Response:
    try:
        # This signs in. Without the check, another site could sign its visitors in to an account of its own.
        cookies.require_same_origin(request)
        organisation = sign_up_flow.require_organisation(request, token)
        given = form_pages.read_fields(request, body)
        name, password = given.get("name", ""), given.get("password", "")
        try:
            if password != given.get("again", ""):
                raise InvalidInput("The passwords do not match.", place="again")
            confirmed = sign_up_flow.confirm_sign_up(request, token=token, password=password, name=name)
            return (
                sign_up_flow.sign_in_to_tenant(request, confirmed)
                if confirmed.tenant
                else pages.render_tenant_delayed()
            )
        except InvalidInput as exc:
            return pages.render_confirmation_form(
                organisation=organisation, name=name, wrong=form_pages.describe_error(exc), status=exc.status
            )
    except AdmitError as exc:
        return _render_link_error(exc)


def _render_link_error(exc: AdmitError) -> Response:
    is_offered = not isinstance(exc, TrialsNotOffered)
    return form_pages.render_error_page(
        exc, *((form_pages.PageLink("/sign-up", "Request a new link"),) if is_offered else ())
    )


def _render_sign_up_form(request: Request, given: dict[str, str], *, wrong: str = "", status: int = 200) -> Response:
    terms = get_settings(request).trials
    return pages.render_sign_up_form(
        days=terms.days, endpoints=terms.endpoints, given=given, wrong=wrong, status=status
    )
