"""What `/second-factor` shows. Plain HTML, for any browser, without a script."""

from collections.abc import Collection, Sequence
from html import escape
from http import HTTPStatus
from typing import Final

from fastapi import Response

from api.form_pages import PageLink, build_error_page, render_alert
from api.links.pages import render_page

PATH: Final = "/second-factor"
_TITLE = "Your second factor"
_HOME_PARAGRAPH = '<p><a href="/">All your tenants</a></p>'
_METHOD_NAMES = {"totp": "an authenticator app", "passkey": "a passkey", "recovery-code": "recovery codes"}
_ADD_FORM = """\
<p>An authenticator app on your phone shows codes, of which sign-ins ask for one beside your password.</p>
<form method="post" action="{path}"><input type="hidden" name="csrf_token" value="{csrf_token}">
<button>Add an authenticator app</button></form>
"""
_APP_KEY = """\
<p>Enter this key in the app, by time (TOTP): <code>{secret}</code></p>
<p><a href="{uri}">Or open the app here</a>, on the phone itself.</p>
"""
_CODE_FORM = """\
{wrong}
<form method="post" action="{path}/code"><input type="hidden" name="csrf_token" value="{csrf_token}">
<label class="field">The code that it shows
<input name="code" required maxlength="40" inputmode="numeric" autocomplete="one-time-code" autofocus></label>
<button>Go on</button></form>
<p><a href="{path}">Begin again</a></p>
"""
_RECOVERY_CODES = """\
<p>From now on a code of the app is asked for beside your password. You are signed out everywhere else.</p>
<section>
<h2>Recovery codes</h2>
<p>Where the app is lost, each of these works once in place of a code. They are shown this once: keep them.
Those of before no longer work.</p>
<pre>{codes}</pre>
</section>
"""


def render_factors(methods: Collection[str], *, csrf_token: str) -> Response:
    has = ", ".join(_METHOD_NAMES[method] for method in methods)
    told = f"<p>You have: {has}.</p>" if has else "<p>You have none yet.</p>"
    add = "" if "totp" in methods else _ADD_FORM.format(path=PATH, csrf_token=escape(csrf_token))
    return render_page(_TITLE, told + add + _HOME_PARAGRAPH, HTTPStatus.OK)


def render_app_secret(secret: str, uri: str, *, csrf_token: str) -> Response:
    fours = " ".join(secret[start : start + 4] for start in range(0, len(secret), 4))
    body = _APP_KEY.format(secret=fours, uri=escape(uri))
    return render_page(_TITLE, body + _build_code_form(csrf_token), HTTPStatus.CREATED)


def render_code_form(*, wrong: str, csrf_token: str, status: int) -> Response:
    return render_page(_TITLE, _build_code_form(csrf_token, wrong), status)


def _build_code_form(csrf_token: str, wrong: str = "") -> str:
    return _CODE_FORM.format(path=PATH, csrf_token=escape(csrf_token), wrong=render_alert(wrong))


def render_recovery_codes(made: Sequence[str]) -> Response:
    return render_page(_TITLE, _RECOVERY_CODES.format(codes=escape("\n".join(made))) + _HOME_PARAGRAPH, HTTPStatus.OK)


def render_sign_in_again() -> Response:
    """Whoever signed in a while ago may not be who sits there now."""
    ways = PageLink("/sign-in", "Sign in anew"), PageLink("/", "All your tenants")
    return build_error_page("Show anew that it is you: sign in once more.", HTTPStatus.FORBIDDEN, ways)
