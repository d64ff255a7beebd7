"""Routes of `/sign-up` and `/sign-up/<token>`.

Only a POST uses a link, because mail programs open links for previews.
"""

from collections.abc import Mapping
from http import HTTPStatus

from fastapi import APIRouter, Request, Response

from api import cookies, sign_up_flow
from api.application_state import get_settings
from api.forms import FORM_OPENAPI, FormBody, read_fields
from api.pages import PageLink, describe_error, render_error_page, render_page
from api.v1.sign_up import LINK_SENT_SENTENCE
from nac.accounts.people.service import MINIMUM_PASSWORD_CHARACTERS
from nac.kit.errors import AdmitError, InvalidInput
from nac.onboarding.trials.service import TrialsNotOffered

router = APIRouter(tags=["sign-up pages"], include_in_schema=False)

_DELAY_SENTENCE = "Your account is ready. Your tenant is not ready yet: we send you a mail when the tenant is ready."


@router.get("/sign-up")
async def show_sign_up_form(request: Request) -> Response:
    try:
        sign_up_flow.build_sign_up_context(request).require_offered()
    except AdmitError as exc:
        return render_error_page(exc)
    return _render_sign_up_form(request, {})


@router.post("/sign-up", openapi_extra=FORM_OPENAPI)
def request_sign_up(request: Request, body: FormBody) -> Response:
    fields: dict[str, str] = {}
    try:
        fields = read_fields(request, body)
        sign_up_flow.request_sign_up(
            request, email=fields.get("email", ""), organisation=fields.get("organisation", "")
        )
    except InvalidInput as exc:
        return _render_sign_up_form(request, fields, wrong=describe_error(exc), status=exc.status)
    except AdmitError as exc:
        return render_error_page(exc)
    return render_page("message.html", status=HTTPStatus.ACCEPTED, title="Check your mail", sentence=LINK_SENT_SENTENCE)


@router.get("/sign-up/{token}")
def show_confirmation_form(token: str, request: Request) -> Response:
    try:
        return _render_confirmation_form(organisation=sign_up_flow.require_organisation(request, token))
    except AdmitError as exc:
        return _render_link_error(exc)


@router.post("/sign-up/{token}", openapi_extra=FORM_OPENAPI)
def confirm_sign_up(token: str, request: Request, body: FormBody) -> Response:
    try:
        # The form signs the visitor in. Without this check, a malicious site could sign visitors in to an account of
        # the attacker.
        cookies.require_same_origin(request)
        organisation = sign_up_flow.require_organisation(request, token)
        fields = read_fields(request, body)
        name, password = fields.get("name", ""), fields.get("password", "")
        try:
            if password != fields.get("again", ""):
                raise InvalidInput("The passwords do not match.", place="again")
            confirmed = sign_up_flow.confirm_sign_up(request, token=token, password=password, name=name)
            return sign_up_flow.sign_in_to_tenant(request, confirmed) if confirmed.tenant else _render_tenant_delayed()
        except InvalidInput as exc:
            return _render_confirmation_form(
                organisation=organisation, name=name, wrong=describe_error(exc), status=exc.status
            )
    except AdmitError as exc:
        return _render_link_error(exc)


def _render_link_error(exc: AdmitError) -> Response:
    is_offered = not isinstance(exc, TrialsNotOffered)
    return render_error_page(exc, *((PageLink("/sign-up", "Request a new link"),) if is_offered else ()))


def _render_sign_up_form(
    request: Request, fields: Mapping[str, str], *, wrong: str = "", status: int = HTTPStatus.OK
) -> Response:
    terms = get_settings(request).trials
    return render_page(
        "sign-up/request.html",
        status=status,
        days=terms.days,
        endpoints=terms.endpoints,
        email=fields.get("email", ""),
        organisation=fields.get("organisation", ""),
        wrong=wrong,
    )


def _render_confirmation_form(
    *, organisation: str, name: str = "", wrong: str = "", status: int = HTTPStatus.OK
) -> Response:
    return render_page(
        "sign-up/confirm.html",
        status=status,
        organisation=organisation,
        name=name,
        minimum=MINIMUM_PASSWORD_CHARACTERS,
        wrong=wrong,
    )


def _render_tenant_delayed() -> Response:
    return render_page(
        "message.html", status=HTTPStatus.CREATED, title="Creating your tenant", sentence=_DELAY_SENTENCE
    )
