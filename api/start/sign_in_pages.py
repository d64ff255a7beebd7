"""Sign-in pages and the list of tenants. Plain HTML; only passkeys need a script."""

from collections.abc import Collection, Sequence
from html import escape
from http import HTTPStatus
from pathlib import Path
from urllib.parse import urlencode

from fastapi import Response

from api.form_pages import render_alert
from api.links.pages import render_page
from api.start.company_sign_on import CompanySignOn
from nac.accounts.sign_in.accessible_places import AccessiblePlace

_SIGN_IN_FORM = """\
{wrong}
<form method="post" action="/sign-in">
<label class="field">E-mail address
<input type="email" name="email" required maxlength="254" autocomplete="username" value="{email}"></label>
<label class="field">Password
<input type="password" name="password" required maxlength="1000" autocomplete="current-password"></label>
<button>Sign in</button>
</form>
<p><a href="/new-password">Forgot your password?</a></p>
{passkey}
<section>
<form method="get" action="/sign-in/company">
<label class="field">Or use your company's single sign-on
<input name="name" required maxlength="63" autocomplete="organization" placeholder="acme" value="{company}">
<span class="hint">Short name of your company or provider in Admit. Your network administrator knows it.</span>
</label>
{company_wrong}
<button>Sign in with your company</button>
</form>
</section>
{trials}
"""
_PASSKEY_BUTTON = """\
<section hidden>
<p><button type="button" data-passkey="{challenge}">Use a passkey</button></p>
<p class="wrong" role="alert" hidden></p>
</section>
"""
PASSKEY_SCRIPT_PATH = "/sign-in/passkey.js"
PASSKEY_SCRIPT = Path(__file__).with_name("passkey.js").read_text(encoding="utf-8")
_TRIALS_LINK = '<p>No account yet? <a href="/sign-up">Try Admit</a></p>'
_FACTOR_SENTENCE = "<p>Confirm with your second factor.</p>\n{wrong}\n"
_CODE_FORM = """\
<form method="post" action="/sign-in/{method}">
<input type="hidden" name="challenge" value="{challenge}">
<input type="hidden" name="methods" value="{methods}">
<label class="field">{label}
<input name="code" required maxlength="40" autocomplete="one-time-code"{focus}></label>
<button>Continue</button>
</form>
"""
_SIGN_IN_AGAIN_LINK = '<p><a href="/sign-in">Start again</a></p>\n'
_CODE_LABELS = {"totp": "Code from your authenticator app", "recovery-code": "Or one of your recovery codes"}
_PASSKEY_NEEDS_SCRIPT = (
    "<noscript><p>Your second factor is a passkey. It needs JavaScript in your browser.</p></noscript>"
)


def render_sign_in(
    *,
    trials: bool,
    email: str = "",
    wrong: str = "",
    company: str = "",
    company_wrong: str = "",
    status: int = HTTPStatus.OK,
) -> Response:
    body = _SIGN_IN_FORM.format(
        email=escape(email),
        wrong=render_alert(wrong),
        passkey=_PASSKEY_BUTTON.format(challenge=""),
        company=escape(company),
        company_wrong=render_alert(company_wrong),
        trials=_TRIALS_LINK if trials else "",
    )
    return render_page("Sign in", body, status, script=PASSKEY_SCRIPT_PATH)


def render_company_sign_on(found: CompanySignOn) -> Response:
    provider = escape(found.provider)
    link = f'<p><a class="button" href="{escape(found.begin)}">Continue to {provider}</a></p>'
    body = f"<p>Your company signs you in at <strong>{provider}</strong>.</p>{link}"
    return render_page("Sign in with your company", body, HTTPStatus.OK)


def render_second_factor(
    methods: Collection[str], *, challenge: str, wrong: str = "", status: int = HTTPStatus.OK
) -> Response:
    """One form for each method that needs no script, and a button for a passkey.

    After an error the page still offers all methods: without the phone, a recovery code works.
    """
    offered = [method for method in (*_CODE_LABELS, "passkey") if method in methods]
    given = {"challenge": escape(challenge), "methods": " ".join(offered)}
    forms = [
        # Only the first field has the focus.
        _CODE_FORM.format(method=method, label=_CODE_LABELS[method], focus="" if at else " autofocus", **given)
        for at, method in enumerate(offered)
        if method in _CODE_LABELS
    ]
    if forms:
        forms.insert(0, _FACTOR_SENTENCE.format(wrong=render_alert(wrong)))
    elif wrong:
        forms.append(render_alert(wrong))
    if wrong:
        forms.append(_SIGN_IN_AGAIN_LINK)
    if "passkey" not in offered:
        return render_page("Sign in", "".join(forms), status)
    passkey = _PASSKEY_BUTTON.format(challenge=escape(challenge)) + ("" if forms else _PASSKEY_NEEDS_SCRIPT)
    return render_page("Sign in", passkey + "".join(forms), status, script=PASSKEY_SCRIPT_PATH)


def render_places(found: Sequence[AccessiblePlace], *, following: str, csrf_token: str) -> Response:
    """List tenants. `following` is the last key of this page; "" if there are no more."""
    rows = "".join(map(_render_place, (place for place in found if place.kind == "tenant")))
    more = f'<p><a href="/?{urlencode({"after": following})}">More</a></p>' if following else ""
    leave = f'<input type="hidden" name="csrf_token" value="{escape(csrf_token)}"><button>Sign out</button>'
    body = f"<ul>{rows}</ul>" if rows or more else "<p>You are not a member of any tenant.</p>"
    factor = '<p><a href="/second-factor">Second factor</a></p>'
    return render_page(
        "Your tenants", f'{body}{more}{factor}<form method="post" action="/sign-out">{leave}</form>', HTTPStatus.OK
    )


def _render_place(place: AccessiblePlace) -> str:
    about = place.slug if place.status == "active" else f"{place.slug}, {place.status}"
    link = f'<a href="/start/{escape(place.slug)}">{escape(place.name)}</a>'
    return f'<li>{link} <span class="hint">{escape(about)}</span></li>'
