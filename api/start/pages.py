"""The first pages after signing in. Plain HTML, for any browser, without a script."""

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from http import HTTPStatus

from fastapi import Response

from api.form_pages import wrong_sentence
from api.links.pages import page
from api.v1.radius_secret import RadiusServer
from api.v1.self_tests import SelfTest
from nac.sign_in.places import Place

_SECONDS_UNTIL_NEXT_LOOK = "3"

_SIGN_IN = """\
{wrong}
<form method="post" action="/sign-in">
<label class="field">Your e-mail address
<input type="email" name="email" required maxlength="254" autocomplete="username" value="{email}"></label>
<label class="field">Password
<input type="password" name="password" required maxlength="1000" autocomplete="current-password"></label>
<button>Sign in</button>
</form>
"""
_CODE = """\
<p>Show a second factor as well.</p>
{wrong}
<form method="post" action="/sign-in/{method}">
<input type="hidden" name="challenge" value="{challenge}">
<label class="field">{label}
<input name="code" required maxlength="40" autocomplete="one-time-code" autofocus></label>
<button>Go on</button>
</form>
"""
_LABELS = {"totp": "Code of your authenticator app", "recovery-code": "Or one of your recovery codes"}
_PASSKEY_ALONE = "<p>Your second factor is a passkey, which takes a page with scripts.</p>"
_TENANT = """\
<p>Switches and access points send to <strong>{address}</strong>: authentication to UDP port
<strong>{auth_port}</strong>, accounting to UDP port <strong>{acct_port}</strong>.</p>
{secret}
<section>
<h2>Self-test</h2>
{board}
</section>
<section>
<h2>What comes next</h2>
<p>Enter a device, point a switch here and look at what was decided: the
<a href="/openapi.json">API</a> does all of it, by hand with <code>./admit api</code> and a token of yours.</p>
<form method="post" action="/sign-out"><input type="hidden" name="csrf_token" value="{csrf_token}">
<button>Sign out</button></form>
</section>
"""
_REVEAL = """\
<form method="post" action="/start/{slug}/secret"><input type="hidden" name="csrf_token" value="{csrf_token}">
<button>Show the shared secret</button>
<span class="hint">That you were shown it is written down.</span></form>
"""
_TEST = """\
<form method="post" action="/start/{slug}/self-test"><input type="hidden" name="csrf_token" value="{csrf_token}">
<button>Test again</button></form>
"""


def sign_in(*, email: str = "", wrong: str = "", status: int = HTTPStatus.OK) -> Response:
    return page("Sign in", _SIGN_IN.format(email=escape(email), wrong=wrong_sentence(wrong)), status)


def second_factor(methods: Iterable[str], *, challenge: str, wrong: str = "", status: int = HTTPStatus.OK) -> Response:
    """One form for each method that needs no script."""
    forms = [
        _CODE.format(method=method, label=_LABELS[method], challenge=escape(challenge), wrong=wrong_sentence(wrong))
        for method in methods
        if method in _LABELS
    ]
    return page("Sign in", "".join(forms) or _PASSKEY_ALONE, status)


def places(found: Sequence[Place], *, csrf_token: str) -> Response:
    rows = "".join(
        f'<li><a href="/start/{escape(place.slug)}">{escape(place.name)}</a></li>'
        for place in found
        if place.kind == "tenant"
    )
    leave = f'<input type="hidden" name="csrf_token" value="{escape(csrf_token)}"><button>Sign out</button>'
    body = f"<ul>{rows}</ul>" if rows else "<p>No tenant is open to you.</p>"
    return page("Your tenants", f'{body}<form method="post" action="/sign-out">{leave}</form>', HTTPStatus.OK)


def tenant(
    *, slug: str, name: str, server: RadiusServer, test: SelfTest | None, csrf_token: str, may: Mapping[str, bool]
) -> Response:
    """`server.secret` is "" until it is asked for; `may` says what is offered: reveal, test."""
    given = {"slug": escape(slug), "csrf_token": escape(csrf_token)}
    secret = ""
    if server.secret:
        secret = f"<p>The shared secret: <code>{escape(server.secret)}</code></p>"
    elif may["reveal"]:
        secret = _REVEAL.format(**given)
    runs = test is not None and test.passed is None and not test.error
    board = _board(test) + ("" if runs or not may["test"] else _TEST.format(**given))
    body = _TENANT.format(
        address=escape(server.address),
        auth_port=server.auth_port,
        acct_port=server.acct_port,
        secret=secret,
        board=board,
        **given,
    )
    # Not while a secret is shown: the page would be asked for again without it.
    again = {"Refresh": _SECONDS_UNTIL_NEXT_LOOK} if runs and not server.secret else {}
    return page(name, body, HTTPStatus.OK, again)


def _board(test: SelfTest | None) -> str:
    if test is None:
        return "<p>None has run yet.</p>"
    if test.error:
        return f'<p class="wrong" role="alert">It could not be carried out: {escape(test.error)}</p>'
    if test.passed is None:
        return "<p>We are asking the ports as one of your switches would: a few seconds.</p>"
    head = "Everything is as it should be." if test.passed else "Not everything is as it should be."
    rows = "".join(
        f'<tr class="{"good" if check.ok else "wrong"}"><td>{"✓" if check.ok else "✗"}</td>'
        f"<td>{escape(check.name)}: {escape(check.sent)}</td><td>{escape(check.got)}</td></tr>"
        for check in test.checks
    )
    return f'<p class="{"good" if test.passed else "wrong"}"><strong>{head}</strong></p><table>{rows}</table>'
