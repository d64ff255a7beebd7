"""Routes of `/start/<tenant>`: the first steps of a new tenant, with forms only."""

from dataclasses import replace
from datetime import timedelta

from fastapi import APIRouter, Request, Response
from fastapi.responses import RedirectResponse

from api import cookies
from api.access import Access, ChangesTenant, ReadsTenant
from api.application_state import get_settings
from api.forms import FORM_OPENAPI, FormBody, read_fields
from api.pages import describe_error
from api.start import tenant_pages as pages
from api.start.visitor import open_tenant_access, record_csrf_token, show_errors
from api.v1.endpoints import EndpointInput, create_endpoint
from api.v1.radius_secret import RadiusSecretRequest, RadiusServer, reveal_secret
from api.v1.self_tests import build_self_test
from nac.accounts.api_tokens import service as tokens
from nac.cellformat.self_test_ticket import NAS_IDENTIFIER
from nac.core.access.effects import ENDPOINT_EFFECTS, Effect
from nac.core.access.permissions import Permission, PermissionLevel, permissions_at
from nac.inventory.endpoints.service import RandomAddress
from nac.kit.clock import utc_now
from nac.kit.errors import Conflict, InvalidInput
from nac.onboarding.self_tests import service as self_tests
from nac.onboarding.snippets.service import list_templates
from nac.onboarding.trials import service as trials
from nac.sessions.decisions import service as decisions
from nac.sessions.decisions.service import LoggedDecision
from nac.tenancy.cells import service as cells
from nac.tenancy.tenants import service as tenants

router = APIRouter(tags=["start pages"], include_in_schema=False)

_TOKEN_LIFETIME = timedelta(days=1)
_MAX_DECISIONS = 5
# Decisions read for the page; requests of self-tests are left out.
_MAX_DECISIONS_READ = 60
_MAX_MAC_CHARACTERS, _MAX_NAME_CHARACTERS, _MAX_SNIPPET_CHARACTERS = 40, 200, 63
# The default of most phones.
_RANDOM_ADDRESS_SENTENCE = (
    "This is a random address, which the device may change. Turn off its private (random) address for this"
    " network and enter its real MAC address."
)


# The same as in the corresponding operations of the API.
_READS_TENANT = ReadsTenant(Permission.TENANT_READ)
_REVEALS_SECRET = ChangesTenant(Permission.SECRET_REVEAL, Effect.SECRETS)
_CREATES_ENDPOINTS = ChangesTenant(Permission.ENDPOINT_MANAGE, *ENDPOINT_EFFECTS)
_CREATES_TOKENS = ChangesTenant(Permission.TOKEN_MANAGE, Effect.RIGHTS)
_STARTS_SELF_TESTS = ChangesTenant(Permission.POLICY_PUBLISH, Effect.RECORDS)


@router.get("/start/{tenant}")
@show_errors
def show_tenant(request: Request, mac: str = "") -> Response:
    """Show the tenant. `mac` prefills the form that approves a device."""
    return _render_page(request, pages.TenantPageInput(mac=mac[:_MAX_MAC_CHARACTERS]))


@router.post("/start/{tenant}/secret", openapi_extra=FORM_OPENAPI)
@show_errors
def show_secret(request: Request, body: FormBody) -> Response:
    record_csrf_token(request, fields := read_fields(request, body))
    snippet = fields.get("snippet", "")[:_MAX_SNIPPET_CHARACTERS]
    server = reveal_secret(
        open_tenant_access(request, _REVEALS_SECRET), RadiusSecretRequest.model_validate({"snippet": snippet})
    )
    return _render_page(request, pages.TenantPageInput(server=server))


@router.post("/start/{tenant}/device", openapi_extra=FORM_OPENAPI)
@show_errors
def create_device(request: Request, body: FormBody) -> Response:
    record_csrf_token(request, fields := read_fields(request, body))
    mac, name = fields.get("mac", ""), fields.get("name", "")
    access = replace(open_tenant_access(request, _CREATES_ENDPOINTS), wait=True)
    try:
        if len(mac) > _MAX_MAC_CHARACTERS or len(name) > _MAX_NAME_CHARACTERS:
            raise InvalidInput("The MAC address or name is too long.", place="mac")
        made = create_endpoint(access, EndpointInput.model_validate({"mac": mac, "name": name}))
    except RandomAddress as exc:
        page_input = pages.TenantPageInput(mac=mac, name=name, wrong=_RANDOM_ADDRESS_SENTENCE)
        return _render_page(request, page_input, status=exc.status)
    except (InvalidInput, Conflict) as exc:
        page_input = pages.TenantPageInput(mac=mac, name=name, wrong=describe_error(exc))
        return _render_page(request, page_input, status=exc.status)
    live = access.asked.response.headers["Admit-Live"] == "true"
    return _render_page(request, pages.TenantPageInput(entered=made.mac, live=live))


@router.post("/start/{tenant}/token", openapi_extra=FORM_OPENAPI)
@show_errors
def create_token(request: Request, body: FormBody) -> Response:
    record_csrf_token(request, read_fields(request, body))
    access = open_tenant_access(request, _CREATES_TOKENS)
    with access.noted() as session:
        made = tokens.create_token(
            session,
            actor=access.actor,
            held=access.held,
            owner=access.owner,
            maker=access.principal.maker,
            name="start page",
            permissions=access.held & permissions_at(PermissionLevel.TENANT),
            expires_at=utc_now() + _TOKEN_LIFETIME,
        )
    return _render_page(request, pages.TenantPageInput(token=made.text))


@router.post("/start/{tenant}/self-test", openapi_extra=FORM_OPENAPI)
@show_errors
def start_self_test(request: Request, body: FormBody) -> Response:
    record_csrf_token(request, read_fields(request, body))
    access = open_tenant_access(request, _STARTS_SELF_TESTS)
    with access.noted() as session:
        self_tests.start_self_test(session, actor=access.actor, tenant_id=access.tenant_id)
    return RedirectResponse(request.url.path.removesuffix("/self-test"), 303)


def _render_page(request: Request, page_input: pages.TenantPageInput, *, status: int = 200) -> Response:
    access = open_tenant_access(request, _READS_TENANT)
    assert access.asked.signed_in is not None
    with access.read() as session:
        row = tenants.require_tenant(session, tenant_id=access.tenant_id)
        found = self_tests.list_self_tests(session, tenant_id=access.tenant_id, span=self_tests.ORDERS.first(1))
        slot = cells.require_slot(session, tenant_id=access.tenant_id)
        address = cells.advertised_address(session, slot=slot, usual=get_settings(request).radius_host)
        server = page_input.server or RadiusServer(
            address=address, auth_port=slot.auth_port, acct_port=slot.acct_port, secret="", text=""
        )
        return pages.render_tenant(
            replace(page_input, server=server),
            slug=row.slug,
            name=row.name,
            status=status,
            state=row.status,
            trial=trials.find_trial(session, tenant_id=access.tenant_id),
            test=build_self_test(found[0]) if found else None,
            decisions=_list_recent_decisions(access) if Permission.LOG_READ in access.held else None,
            csrf_token=access.asked.signed_in.csrf_token,
            held=access.held,
            snippets=list_templates(),
            api_url=cookies.portal_origin(get_settings(request)),
        )


def _list_recent_decisions(access: Access) -> list[LoggedDecision]:
    """Last decisions, without those of self-tests."""
    with access.read() as session:
        found = decisions.list_decisions(session, tenant_id=access.tenant_id, limit=_MAX_DECISIONS_READ)
    return [each for each in found if each.log.nas_identifier != NAS_IDENTIFIER][:_MAX_DECISIONS]
