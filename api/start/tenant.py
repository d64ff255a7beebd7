"""`/start/<tenant>`: from a new tenant to its first device, by forms alone."""

from dataclasses import replace
from datetime import timedelta

from fastapi import APIRouter, Request, Response
from fastapi.responses import RedirectResponse

from api import cookies, form_pages
from api.access import Access, ChangesTenant, ReadsTenant
from api.start import tenant_pages as pages
from api.start.visiting import answered, note_form, tenant
from api.state import settings_of
from api.v1.endpoints import EndpointInput, create_endpoint
from api.v1.radius_secret import RadiusSecretRequest, RadiusServer, reveal_secret
from api.v1.self_tests import self_test_of
from nac.accounts.effects import OF_ENDPOINTS, Effect
from nac.accounts.permissions import Level, Permission, permissions_at
from nac.api_tokens import service as tokens
from nac.cells import service as cells
from nac.clock import utc_now
from nac.decisions import service as decisions
from nac.decisions.service import LoggedDecision
from nac.endpoints.service import RandomAddress
from nac.errors import Conflict, InvalidInput
from nac.self_tests import service as self_tests
from nac.self_tests.ticket import NAS_IDENTIFIER
from nac.snippets.service import list_templates
from nac.tenants import service as tenants
from nac.trials import service as trials

router = APIRouter(tags=["start pages"], include_in_schema=False)

_TOKEN_LIFE = timedelta(days=1)
_MOST_DECISIONS = 5
# Self-tests are among those that are looked at, and not shown.
_LOOKED_AT = 60
_MOST_MAC_CHARACTERS, _MOST_NAME_CHARACTERS, _MOST_SNIPPET_CHARACTERS = 40, 200, 63
# Most phones, as they come.
_MADE_UP = (
    "The device made this address up, and may use another one tomorrow. Turn its private (random) address off for this"
    " network, and enter the one that it has then."
)


# As the routes of the API that do the same.
_READS = ReadsTenant(Permission.TENANT_READ)
_REVEALS = ChangesTenant(Permission.SECRET_REVEAL, Effect.SECRETS)
_ENTERS = ChangesTenant(Permission.ENDPOINT_MANAGE, *OF_ENDPOINTS)
_MAKES_TOKENS = ChangesTenant(Permission.TOKEN_MANAGE, Effect.RIGHTS)
_TESTS = ChangesTenant(Permission.POLICY_PUBLISH, Effect.RECORDS)


@router.get("/start/{tenant}")
def show_tenant(request: Request, mac: str = "") -> Response:
    """`mac`: of a device that somebody is about to let in."""
    return answered(lambda: _page(request, pages.Shown(mac=mac[:_MOST_MAC_CHARACTERS])))


@router.post("/start/{tenant}/secret", openapi_extra=form_pages.FORM)
def show_secret(request: Request, body: form_pages.Body) -> Response:
    def show() -> Response:
        note_form(request, given := form_pages.fields(request, body))
        snippet = given.get("snippet", "")[:_MOST_SNIPPET_CHARACTERS]
        server = reveal_secret(tenant(request, _REVEALS), RadiusSecretRequest.model_validate({"snippet": snippet}))
        return _page(request, pages.Shown(server=server))

    return answered(show)


@router.post("/start/{tenant}/device", openapi_extra=form_pages.FORM)
def enter_device(request: Request, body: form_pages.Body) -> Response:
    def enter() -> Response:
        note_form(request, given := form_pages.fields(request, body))
        mac, name = given.get("mac", ""), given.get("name", "")
        access = replace(tenant(request, _ENTERS), wait=True)
        try:
            if len(mac) > _MOST_MAC_CHARACTERS or len(name) > _MOST_NAME_CHARACTERS:
                raise InvalidInput("That is too long.", place="mac")
            made = create_endpoint(access, EndpointInput.model_validate({"mac": mac, "name": name}))
        except RandomAddress as exc:
            shown = pages.Shown(mac=mac, name=name, wrong=_MADE_UP)
            return _page(request, shown, status=exc.status)
        except (InvalidInput, Conflict) as exc:
            shown = pages.Shown(mac=mac, name=name, wrong=form_pages.told(exc))
            return _page(request, shown, status=exc.status)
        live = access.asked.response.headers["Admit-Live"] == "true"
        return _page(request, pages.Shown(entered=made.mac, live=live))

    return answered(enter)


@router.post("/start/{tenant}/token", openapi_extra=form_pages.FORM)
def make_token(request: Request, body: form_pages.Body) -> Response:
    def make() -> Response:
        note_form(request, form_pages.fields(request, body))
        access = tenant(request, _MAKES_TOKENS)
        with access.noted() as session:
            made = tokens.make_token(
                session,
                actor=access.actor,
                held=access.held,
                owner=access.owner,
                maker=access.principal.maker,
                name="start page",
                permissions=access.held & permissions_at(Level.TENANT),
                expires_at=utc_now() + _TOKEN_LIFE,
            )
        return _page(request, pages.Shown(token=made.text))

    return answered(make)


@router.post("/start/{tenant}/self-test", openapi_extra=form_pages.FORM)
def test_again(request: Request, body: form_pages.Body) -> Response:
    def start() -> Response:
        note_form(request, form_pages.fields(request, body))
        access = tenant(request, _TESTS)
        with access.noted() as session:
            self_tests.start_self_test(session, actor=access.actor, tenant_id=access.tenant_id)
        return RedirectResponse(request.url.path.removesuffix("/self-test"), 303)

    return answered(start)


def _page(request: Request, shown: pages.Shown, *, status: int = 200) -> Response:
    access = tenant(request, _READS)
    assert access.asked.signed_in is not None
    with access.read() as session:
        row = tenants.require_tenant(session, tenant_id=access.tenant_id)
        found = self_tests.list_self_tests(session, tenant_id=access.tenant_id, span=self_tests.ORDERS.first(1))
        slot = cells.require_slot(session, tenant_id=access.tenant_id)
        address = cells.told_address(session, slot=slot, usual=settings_of(request).radius_host)
        server = shown.server or RadiusServer(
            address=address, auth_port=slot.auth_port, acct_port=slot.acct_port, secret="", text=""
        )
        return pages.tenant(
            replace(shown, server=server),
            slug=row.slug,
            name=row.name,
            status=status,
            state=row.status,
            trial=trials.find_trial(session, tenant_id=access.tenant_id),
            test=self_test_of(found[0]) if found else None,
            asked=_asked(access) if Permission.LOG_READ in access.held else None,
            csrf_token=access.asked.signed_in.csrf_token,
            held=access.held,
            snippets=list_templates(),
            api_url=cookies.origin_of(settings_of(request)),
        )


def _asked(access: Access) -> list[LoggedDecision]:
    """The last decisions that were no self-test's."""
    with access.read() as session:
        found = decisions.list_decisions(session, tenant_id=access.tenant_id, limit=_LOOKED_AT)
    return [each for each in found if each.log.nas_identifier != NAS_IDENTIFIER][:_MOST_DECISIONS]
