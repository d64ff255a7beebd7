"""Pages of `/second-factor`. Plain HTML without scripts."""

from collections.abc import Collection, Sequence
from html import escape
from http import HTTPStatus
from typing import Final

from fastapi import Response

from api.form_pages import PageLink, build_error_page, render_alert
from api.links.pages import render_page

PATH: Final = "/second-factor"
_TITLE = "Second factor"
_HOME_PARAGRAPH = '<p><a href="/">All tenants</a></p>'
_METHOD_NAMES = {"totp": "an authenticator app", "passkey": "a passkey", "recovery-code": "recovery codes"}
_ADD_FORM = """\
<p>An authenticator app on your phone generates codes. You enter one after your password when you sign in.</p>
<form method="post" action="{path}"><input type="hidden" name="csrf_token" value="{csrf_token}">
<button>Add an authenticator app</button></form>
"""
_APP_KEY = """\
<p>Enter this key in the app as a time-based key (TOTP): <code>{secret}</code></p>
<p>On the phone, you can also <a href="{uri}">open the app</a>.</p>
"""
_CODE_FORM = """\
{wrong}
<form method="post" action="{path}/code"><input type="hidden" name="csrf_token" value="{csrf_token}">
<label class="field">Code from the app
<input name="code" required maxlength="40" inputmode="numeric" autocomplete="one-time-code" autofocus></label>
<button>Continue</button></form>
<p><a href="{path}">Start again</a></p>
"""
_RECOVERY_CODES = """\
<p>From now on you sign in with your password and a code from the app. You are signed out of all other browsers.</p>
<section>
<h2>Recovery codes</h2>
<p>If you lose the app, use a recovery code instead of its code. Each works once. Save them now: Admit shows them only
once. Older recovery codes no longer work.</p>
<pre>{codes}</pre>
</section>
"""


def render_factors(methods: Collection[str], *, csrf_token: str) -> Response:
    has = ", ".join(_METHOD_NAMES[method] for method in methods)
    told = f"<p>You have: {has}.</p>" if has else "<p>You have no second factor yet.</p>"
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
    """Page that asks for a new sign-in, because another person may use the browser by now."""
    ways = PageLink("/sign-in", "Sign in again"), PageLink("/", "All tenants")
    return build_error_page("Confirm that it is you: sign in again.", HTTPStatus.FORBIDDEN, ways)
