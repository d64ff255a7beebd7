"""Pages of `/start/<tenant>`. Plain HTML without scripts."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC
from html import escape
from http import HTTPStatus

from fastapi import Response

from api.form_pages import render_alert
from api.links.pages import render_page
from api.remedies import replace_commands
from api.v1.radius_secret import RadiusServer
from api.v1.self_tests import SelfTest
from nac.core.access.permissions import Permission
from nac.kit.mac import display_mac
from nac.models import Trial
from nac.onboarding.snippets.catalogue import SnippetTemplate
from nac.sessions.decisions.service import LoggedDecision

_REFRESH_SECONDS = "3"

_TENANT_PAGE = """\
{trial}
<section>
<h2>Switches and access points</h2>
<p>Configure <strong>{address}</strong> as RADIUS server, with UDP port <strong>{auth_port}</strong> for authentication
and UDP port <strong>{acct_port}</strong> for accounting.</p>
{secret}
</section>
{device}
<section>
<h2>Recent requests</h2>
{asked}
</section>
<section>
<h2>Self-test</h2>
{board}
</section>
{token}
<section>
<p><a href="/">All tenants</a></p>
<form method="post" action="/sign-out">{csrf}<button>Sign out</button></form>
</section>
"""
_TRIAL_ENDED = """\
<section class="wrong" role="alert">
<h2>This trial has ended</h2>
<p>It ended on <strong>{ended}</strong>. Admit now rejects all devices. Your data is kept until
<strong>{kept_until}</strong> and then deleted.</p>
<p>To continue, ask the administrator of this installation before that day to convert or extend the trial. Ports,
secret, devices and rules stay the same. The command is <code>./admit trial convert {slug}</code>.</p>
</section>
"""
_TENANT_SUSPENDED = """\
<section class="wrong" role="alert">
<h2>This tenant is {status}</h2>
<p>Admit rejects all devices until the tenant is resumed.</p>
</section>
"""
_TRIAL_RUNNING = "<section><p>This trial ends on <strong>{ended}</strong>.</p></section>\n"
_REVEAL_FORM = """\
<form method="post" action="/start/{slug}/secret">{csrf}
<label class="field">Type of device
<select name="snippet"><option value="">Only the shared secret</option>{options}</select></label>
<button>Show the secret and the configuration</button>
<span class="hint">Viewing the secret is recorded in the audit log.</span></form>
"""
_DEVICE_FORM = """\
<section id="device">
<h2>Approve a device</h2>
{told}
<form method="post" action="/start/{slug}/device">{csrf}
<label class="field">MAC address
<input name="mac" required maxlength="40" placeholder="00:00:5e:00:53:01" autocomplete="off" value="{mac}"></label>
<label class="field">Name
<input name="name" maxlength="200" placeholder="Printer, 2nd floor" autocomplete="off" value="{name}"></label>
<button>Approve</button></form>
</section>
"""
_SHELL_SECTION = """\
<section>
<h2>Command line and API</h2>
{told}
</section>
"""
_PROGRAM_FORM = """\
<p>The <a href="/openapi.json">API</a> has all functions of this page and more.</p>
<form method="post" action="/start/{slug}/token">{csrf}<button>Create a token</button>
<span class="hint">The token has your permissions at this tenant and expires after a day.</span></form>
"""
_SHELL_COMMANDS = """\
<p>Save the token now: Admit shows it only once. It expires after a day.</p>
<pre>export ADMIT_API_URL={url} ADMIT_API_TOKEN={token}
./admit api list-endpoints {slug}
curl -H "Authorization: Bearer $ADMIT_API_TOKEN" $ADMIT_API_URL/v1/tenants/{slug}/endpoints</pre>
"""
_SELF_TEST_FORM = """\
<form method="post" action="/start/{slug}/self-test">{csrf}<button>Test again</button></form>
"""


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
    shown: TenantPageInput,
    *,
    slug: str,
    name: str,
    status: int,
    state: str,
    trial: Trial | None,
    test: SelfTest | None,
    asked: Sequence[LoggedDecision] | None,
    csrf_token: str,
    held: frozenset[Permission],
    snippets: Sequence[SnippetTemplate],
    api_url: str,
) -> Response:
    """The tenant's page. `asked` is None without permission to see it; `held` and the tenant's `state` select forms."""
    assert shown.server is not None
    given = {"slug": escape(slug), "csrf": f'<input type="hidden" name="csrf_token" value="{escape(csrf_token)}">'}
    runs = test is not None and test.passed is None and not test.error
    # Refresh only a page that shows nothing once-only and has no form to type in.
    refreshes = runs and shown == TenantPageInput(server=shown.server) and not shown.server.secret
    body = _TENANT_PAGE.format(
        trial=_render_state(state, trial, given),
        address=escape(shown.server.address),
        auth_port=shown.server.auth_port,
        acct_port=shown.server.acct_port,
        secret=_render_secret(shown.server, snippets, given) if Permission.SECRET_REVEAL in held else "",
        device=_render_device_form(shown, given)
        if Permission.ENDPOINT_MANAGE in held and state == "active" and not refreshes
        else "",
        asked=_render_decisions(asked, slug, may_enter=Permission.ENDPOINT_MANAGE in held and state == "active"),
        board=_render_self_test(test)
        + ("" if runs or Permission.POLICY_PUBLISH not in held else _SELF_TEST_FORM.format(**given)),
        token=_render_token_section(shown.token, api_url, given) if Permission.TOKEN_MANAGE in held else "",
        **given,
    )
    again = {"Refresh": _REFRESH_SECONDS} if refreshes else {}
    return render_page(name, body, status or HTTPStatus.OK, again)


def _render_state(state: str, trial: Trial | None, given: dict[str, str]) -> str:
    found = _render_trial(trial, given) if trial else ""
    if state == "active" or (trial and trial.state == "ended"):
        return found
    return _TENANT_SUSPENDED.format(status="being deleted" if state == "deleting" else state) + found


def _render_trial(trial: Trial, given: dict[str, str]) -> str:
    told = {"ended": _TRIAL_ENDED, "running": _TRIAL_RUNNING}.get(trial.state, "")
    return told.format(ended=f"{trial.ends_at:%Y-%m-%d}", kept_until=f"{trial.purged_at:%Y-%m-%d}", **given)


def _render_secret(server: RadiusServer, snippets: Sequence[SnippetTemplate], given: dict[str, str]) -> str:
    if not server.secret:
        options = "".join(f'<option value="{escape(each.id)}">{escape(each.title)}</option>' for each in snippets)
        return _REVEAL_FORM.format(options=options, **given)
    text = f"<pre>{escape(server.text)}</pre>" if server.text else ""
    return f"<p>The shared secret: <code>{escape(server.secret)}</code></p>{text}"


def _render_device_form(shown: TenantPageInput, given: dict[str, str]) -> str:
    told = render_alert(shown.wrong)
    if shown.entered:
        how = "is approved" if shown.live else "is approved. The cell applies the change in a few seconds"
        told = f'<p class="good" role="status">{escape(shown.entered)} {how}.</p>'
    return _DEVICE_FORM.format(told=told, mac=escape(shown.mac), name=escape(shown.name), **given)


def _render_token_section(token: str, url: str, given: dict[str, str]) -> str:
    made = (
        _SHELL_COMMANDS.format(url=escape(url), token=escape(token), **given)
        if token
        else _PROGRAM_FORM.format(**given)
    )
    return _SHELL_SECTION.format(told=made)


def _render_decisions(found: Sequence[LoggedDecision] | None, slug: str, *, may_enter: bool) -> str:
    if found is None:
        return "<p>You have no permission to see requests.</p>"
    link = f"/start/{escape(slug)}"
    again = f'<p><a href="{link}">Refresh</a></p>'
    if not found:
        return f"<p>No requests yet. They appear here when a configured switch sends the first one.</p>{again}"
    rows = "".join(_render_decision(each, link if may_enter else "") for each in found)
    return f"<table>{rows}</table>{again}"


def _render_decision(logged: LoggedDecision, link: str) -> str:
    log = logged.log
    mac = display_mac(log.mac) if log.mac else ""
    kind, word, remedy = "good", "admitted", ""
    if not log.permitted:
        kind, word, remedy = (
            "wrong",
            "rejected",
            f'<span class="hint">{escape(replace_commands(logged.reason.advice))}</span>',
        )
    if link and mac and log.reason == "unknown-mac":
        remedy = f'<span class="hint"><a href="{link}?mac={mac}#device">Approve it</a> if it is yours.</span>'
    return (
        f'<tr class="{kind}"><td>{log.at.astimezone(UTC):%H:%M:%S} UTC</td>'
        f"<td>{escape(log.identity or mac)} at {escape(logged.nas)}</td>"
        f"<td>{word}: {escape(logged.reason.title)}{remedy}</td></tr>"
    )


def _render_self_test(test: SelfTest | None) -> str:
    if test is None:
        return "<p>No self-test has run yet.</p>"
    if test.error:
        return f'<p class="wrong" role="alert">The self-test could not run: {escape(test.error)}</p>'
    if test.passed is None:
        return "<p>The self-test sends requests to your ports as a switch would. This takes a few seconds.</p>"
    head = "All tests passed." if test.passed else "Some tests failed."
    rows = "".join(
        f'<tr class="{"good" if check.ok else "wrong"}"><td>{"✓" if check.ok else "✗"}</td>'
        f"<td>{escape(check.name)}: {escape(check.sent)}</td><td>{escape(check.got)}</td></tr>"
        for check in test.checks
    )
    return f'<p class="{"good" if test.passed else "wrong"}"><strong>{head}</strong></p><table>{rows}</table>'
