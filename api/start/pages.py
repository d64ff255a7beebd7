"""The first pages after signing in. Plain HTML, for any browser, without a script."""

from collections.abc import Iterable, Sequence
from html import escape
from http import HTTPStatus
from urllib.parse import urlencode

from fastapi import Response

from api.form_pages import wrong_sentence
from api.links.pages import page
from nac.sign_in.places import Place

_SIGN_IN = """\
{wrong}
<form method="post" action="/sign-in">
<label class="field">Your e-mail address
<input type="email" name="email" required maxlength="254" autocomplete="username" value="{email}"></label>
<label class="field">Password
<input type="password" name="password" required maxlength="1000" autocomplete="current-password"></label>
<button>Sign in</button>
</form>
<p><a href="/new-password">Forgot your password?</a></p>
{trials}
"""
_TRIALS = '<p>No account yet? <a href="/sign-up">Try Admit</a></p>'
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


def sign_in(*, trials: bool, email: str = "", wrong: str = "", status: int = HTTPStatus.OK) -> Response:
    body = _SIGN_IN.format(email=escape(email), wrong=wrong_sentence(wrong), trials=_TRIALS if trials else "")
    return page("Sign in", body, status)


def second_factor(methods: Iterable[str], *, challenge: str, wrong: str = "", status: int = HTTPStatus.OK) -> Response:
    """One form for each method that needs no script."""
    forms = [
        _CODE.format(method=method, label=_LABELS[method], challenge=escape(challenge), wrong=wrong_sentence(wrong))
        for method in methods
        if method in _LABELS
    ]
    return page("Sign in", "".join(forms) or _PASSKEY_ALONE, status)


def places(found: Sequence[Place], *, following: str, csrf_token: str) -> Response:
    """`following` is the key that the next page begins after; "" for none."""
    rows = "".join(map(_place, (place for place in found if place.kind == "tenant")))
    more = f'<p><a href="/?{urlencode({"after": following})}">More</a></p>' if following else ""
    leave = f'<input type="hidden" name="csrf_token" value="{escape(csrf_token)}"><button>Sign out</button>'
    body = f"<ul>{rows}</ul>" if rows or more else "<p>No tenant is open to you.</p>"
    return page("Your tenants", f'{body}{more}<form method="post" action="/sign-out">{leave}</form>', HTTPStatus.OK)


def _place(place: Place) -> str:
    about = place.slug if place.status == "active" else f"{place.slug}, {place.status}"
    link = f'<a href="/start/{escape(place.slug)}">{escape(place.name)}</a>'
    return f'<li>{link} <span class="hint">{escape(about)}</span></li>'
