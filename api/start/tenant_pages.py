"""The page of `/start/<tenant>`."""

from collections.abc import Sequence
from dataclasses import dataclass

from fastapi import Response

from api.pages import render_page
from api.v1.radius_secret import RadiusServer
from api.v1.self_tests import SelfTest
from nac.core.access.permissions import Permission
from nac.models import Trial
from nac.onboarding.snippets.catalogue import SnippetTemplate
from nac.sessions.decisions.service import LoggedDecision

_REFRESH_SECONDS = "3"


@dataclass(frozen=True, slots=True)
class TenantPageInput:
    """Parts of the page that depend on the request: its result, or what the person typed."""

    # With the secret if the person requested it.
    server: RadiusServer | None = None
    token: str = ""
    # MAC address of the device just approved, and whether the change is live in the cell.
    entered: str = ""
    live: bool = False
    mac: str = ""
    name: str = ""
    wrong: str = ""


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
    """The tenant's page. `decisions` is None without permission; `held` and the tenant's `state` select forms."""
    assert page_input.server is not None
    test_runs = test is not None and test.passed is None and not test.error
    # Refresh only a page that shows nothing once-only and has no form to type in.
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
