"""Pages of the sign-up. Plain HTML without scripts."""

from collections.abc import Mapping
from html import escape
from http import HTTPStatus

from fastapi import Response

from api.form_pages import render_alert
from api.links.pages import render_page
from nac.accounts.people.service import MINIMUM_PASSWORD_CHARACTERS

_SIGN_UP_FORM = """\
<p>Get your own tenant for your switches and access points: free for {days} days, up to {endpoints} devices.</p>
{wrong}
<form method="post" action="/sign-up">
<label class="field">E-mail address
<input type="email" name="email" required maxlength="254" autocomplete="email" value="{email}"></label>
<label class="field">Organisation
<input name="organisation" required maxlength="200" autocomplete="organization" value="{organisation}"></label>
<button>Send me the link</button>
</form>
<p><span class="hint">We send you one mail with a link. The link works for one day. Open it to create your
tenant.</span></p>
<p>Already have an account? <a href="/sign-in">Sign in</a></p>
"""
_CONFIRMATION_FORM = """\
<p>For <strong>{organisation}</strong>. Choose a password for your account to create your tenant.</p>
{wrong}
<form method="post">
<label class="field">Your name
<input name="name" maxlength="200" autocomplete="name" value="{name}"></label>
<label class="field">Password
<span class="hint">At least {least} characters. A few random words work well.</span>
<input type="password" name="password" required minlength="{least}" maxlength="200" autocomplete="new-password"></label>
<label class="field">Repeat the password
<input type="password" name="again" required minlength="{least}" maxlength="200" autocomplete="new-password"></label>
<button>Create my tenant</button>
</form>
"""
_DELAY_SENTENCE = "Your account is ready. The tenant takes a little longer: we send you a mail when it is ready."


def render_sign_up_form(
    *, days: int, endpoints: int, given: Mapping[str, str], wrong: str = "", status: int = HTTPStatus.OK
) -> Response:
    body = _SIGN_UP_FORM.format(
        days=days,
        endpoints=endpoints,
        wrong=render_alert(wrong),
        email=escape(given.get("email", "")),
        organisation=escape(given.get("organisation", "")),
    )
    return render_page("Try Admit", body, status)


def render_link_sent(sentence: str) -> Response:
    return render_page("Check your mail", f"<p>{escape(sentence)}</p>", HTTPStatus.ACCEPTED)


def render_confirmation_form(
    *, organisation: str, name: str = "", wrong: str = "", status: int = HTTPStatus.OK
) -> Response:
    body = _CONFIRMATION_FORM.format(
        organisation=escape(organisation),
        name=escape(name),
        wrong=render_alert(wrong),
        least=MINIMUM_PASSWORD_CHARACTERS,
    )
    return render_page("Start your trial", body, status)


def render_tenant_delayed() -> Response:
    return render_page("Creating your tenant", f"<p>{_DELAY_SENTENCE}</p>", HTTPStatus.CREATED)
