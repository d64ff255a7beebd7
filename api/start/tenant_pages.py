"""Page `/start/<tenant>` with the first steps of a new tenant. The page needs no scripts."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

from fastapi import APIRouter, Request, Response
from fastapi.responses import RedirectResponse

from api import cookies
from api.access import Access, ChangesTenant, ReadsTenant
from api.application_state import get_settings
from api.forms import FORM_OPENAPI, FormBody, read_fields
from api.pages import describe_error, render_page
from api.start.visitor import open_tenant_access, record_csrf_token, show_errors
from api.v1.endpoints import EndpointInput, create_endpoint
from api.v1.radius_secret import RadiusSecretRequest, RadiusServer, reveal_secret
from api.v1.self_tests import SelfTest, build_self_test
from nac.accounts import api_tokens
from nac.cellformat.self_test_ticket import NAS_IDENTIFIER
from nac.inventory.endpoints.service import RandomAddress
from nac.kit.clock import utc_now
from nac.kit.errors import Conflict, InvalidInput
from nac.kit.permissions import ENDPOINT_EFFECTS, Effect, Permission, PermissionLevel, permissions_at
from nac.models import Trial
from nac.onboarding.self_tests import service as self_tests
from nac.onboarding.snippets.service import SnippetTemplate, list_templates
from nac.onboarding.trials import service as trials
from nac.sessions.decisions import service as decisions
from nac.sessions.decisions.service import LoggedDecision
from nac.tenancy.cells import service as cells
from nac.tenancy.tenants import service as tenants

router = APIRouter(tags=["start pages"], include_in_schema=False)
_TOKEN_LIFETIME = timedelta(days=1)
_MAX_DECISIONS = 5
# Number of decisions to read, because the page omits decisions about self-tests.
_MAX_DECISIONS_READ = 60
_MAX_MAC_CHARACTERS, _MAX_NAME_CHARACTERS, _MAX_SNIPPET_CHARACTERS = 40, 200, 63
# Most phones use a random address by default.
_RANDOM_ADDRESS_SENTENCE = (
    "This is a random address, which the device may change. Turn off the device's private (random) address for this"
    " network and enter its real MAC address."
)
# Permissions as in the corresponding operations of the API.
_READS_TENANT = ReadsTenant(Permission.TENANT_READ)
_REVEALS_SECRET = ChangesTenant(Permission.SECRET_REVEAL, Effect.SECRETS)
_CREATES_ENDPOINTS = ChangesTenant(Permission.ENDPOINT_MANAGE, *ENDPOINT_EFFECTS)
_CREATES_TOKENS = ChangesTenant(Permission.TOKEN_MANAGE, Effect.RIGHTS)
_STARTS_SELF_TESTS = ChangesTenant(Permission.POLICY_PUBLISH, Effect.RECORDS)
_REFRESH_SECONDS = "3"


@dataclass(frozen=True, slots=True)
class TenantPageInput:
    """Parts of the page that depend on the request, such as the result of the request or the entered text."""

    # Address and ports for NASes, with the secret if the person requested it.
    server: RadiusServer | None = None
    token: str = ""
    # MAC address of the device just approved, and whether the change is live in the cell.
    entered: str = ""
    live: bool = False
    mac: str = ""
    name: str = ""
    wrong: str = ""


@router.get("/start/{tenant}")
@show_errors
def show_tenant(request: Request, mac: str = "") -> Response:
    """Show the tenant. `mac` prefills the form that approves a device."""
    return _render_page(request, TenantPageInput(mac=mac[:_MAX_MAC_CHARACTERS]))


@router.post("/start/{tenant}/secret", openapi_extra=FORM_OPENAPI)
@show_errors
def show_secret(request: Request, body: FormBody) -> Response:
    record_csrf_token(request, fields := read_fields(request, body))
    snippet = fields.get("snippet", "")[:_MAX_SNIPPET_CHARACTERS]
    server = reveal_secret(
        open_tenant_access(request, _REVEALS_SECRET), RadiusSecretRequest.model_validate({"snippet": snippet})
    )
    return _render_page(request, TenantPageInput(server=server))


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
        page_input = TenantPageInput(mac=mac, name=name, wrong=_RANDOM_ADDRESS_SENTENCE)
        return _render_page(request, page_input, status=exc.status)
    except (InvalidInput, Conflict) as exc:
        page_input = TenantPageInput(mac=mac, name=name, wrong=describe_error(exc))
        return _render_page(request, page_input, status=exc.status)
    live = access.asked.response.headers["Admit-Live"] == "true"
    return _render_page(request, TenantPageInput(entered=made.mac, live=live))


@router.post("/start/{tenant}/token", openapi_extra=FORM_OPENAPI)
@show_errors
def create_token(request: Request, body: FormBody) -> Response:
    record_csrf_token(request, read_fields(request, body))
    access = open_tenant_access(request, _CREATES_TOKENS)
    with access.noted() as session:
        made = api_tokens.create_token(
            session,
            actor=access.actor,
            held=access.held,
            owner=access.owner,
            maker=access.principal.maker,
            name="start page",
            permissions=access.held & permissions_at(PermissionLevel.TENANT),
            expires_at=utc_now() + _TOKEN_LIFETIME,
        )
    return _render_page(request, TenantPageInput(token=made.text))


@router.post("/start/{tenant}/self-test", openapi_extra=FORM_OPENAPI)
@show_errors
def start_self_test(request: Request, body: FormBody) -> Response:
    record_csrf_token(request, read_fields(request, body))
    access = open_tenant_access(request, _STARTS_SELF_TESTS)
    with access.noted() as session:
        self_tests.start_self_test(session, actor=access.actor, tenant_id=access.tenant_id)
    return RedirectResponse(request.url.path.removesuffix("/self-test"), 303)


def render_tenant(
    page_input: TenantPageInput,
    *,
    slug: str,
    name: str,
    status: int,
    state: str,
    trial: Trial | None,
    test: SelfTest | None,
    decisions: Sequence[LoggedDecision] | None,
    csrf_token: str,
    held: frozenset[Permission],
    snippets: Sequence[SnippetTemplate],
    api_url: str,
) -> Response:
    """Render the tenant's page. `decisions` is None if the person cannot read the log.

    The permissions in `held` and the status of the tenant (`state`) determine which forms the page has.
    """
    assert page_input.server is not None
    test_runs = test is not None and test.passed is None and not test.error
    # Refresh the page only if it shows no secret or token, and no text that the person has entered.
    refreshes = test_runs and page_input == TenantPageInput(server=page_input.server) and not page_input.server.secret
    return render_page(
        "tenant.html",
        status=status,
        headers={"Refresh": _REFRESH_SECONDS} if refreshes else None,
        page_input=page_input,
        slug=slug,
        name=name,
        state=state,
        trial=trial,
        trial_state=trial.state if trial else "",
        test=test,
        test_runs=test_runs,
        refreshes=refreshes,
        decisions=decisions,
        csrf_token=csrf_token,
        can_reveal_secret=Permission.SECRET_REVEAL in held,
        can_approve=Permission.ENDPOINT_MANAGE in held and state == "active",
        can_test=Permission.POLICY_PUBLISH in held,
        can_create_token=Permission.TOKEN_MANAGE in held,
        snippets=snippets,
        api_url=api_url,
    )


def _render_page(request: Request, page_input: TenantPageInput, *, status: int = 200) -> Response:
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
        return render_tenant(
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
    """Return the last decisions, except decisions about self-tests."""
    with access.read() as session:
        found = decisions.search_decisions(session, tenant_id=access.tenant_id, limit=_MAX_DECISIONS_READ).rows
    return [each for each in found if each.log.nas_identifier != NAS_IDENTIFIER][:_MAX_DECISIONS]
