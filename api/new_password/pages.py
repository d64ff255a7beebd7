"""Pages that reset a password. Plain HTML without scripts."""

from html import escape
from http import HTTPStatus

from fastapi import Response

from api.form_pages import render_alert
from api.links.pages import render_page
from nac.accounts.people.service import MINIMUM_PASSWORD_CHARACTERS

_ASK_FORM = """\
<p>We send a link to your e-mail address. Open it to choose a new password.</p>
{wrong}
<form method="post" action="/new-password">
<label class="field">E-mail address
<input type="email" name="email" required maxlength="254" autocomplete="email" value="{email}"></label>
<button>Send me the link</button>
</form>
<p><a href="/sign-in">Back to sign-in</a></p>
"""
_CHOOSE_FORM = """\
{wrong}
<form method="post">
<label class="field">Password
<span class="hint">At least {least} characters. A few random words work well.</span>
<input type="password" name="password" required minlength="{least}" maxlength="200" autocomplete="new-password"></label>
<label class="field">Repeat the password
<input type="password" name="again" required minlength="{least}" maxlength="200" autocomplete="new-password"></label>
<button>Set the password</button>
</form>
<p><span class="hint">This signs you out of all browsers. Your second factor does not change.</span></p>
"""
_DONE_PAGE = """\
<p>You are signed out of all browsers. Sign in with your new password.</p>
<p><a class="button" href="/">Sign in</a></p>
"""


def render_email_form(*, email: str = "", wrong: str = "", status: int = HTTPStatus.OK) -> Response:
    return render_page("Reset your password", _ASK_FORM.format(wrong=render_alert(wrong), email=escape(email)), status)


def render_link_sent(sentence: str) -> Response:
    return render_page("Check your mail", f"<p>{escape(sentence)}</p>", HTTPStatus.ACCEPTED)


def render_password_form(*, wrong: str = "", status: int = HTTPStatus.OK) -> Response:
    body = _CHOOSE_FORM.format(wrong=render_alert(wrong), least=MINIMUM_PASSWORD_CHARACTERS)
    return render_page("Choose a password", body, status)


def render_password_set() -> Response:
    return render_page("Password changed", _DONE_PAGE, HTTPStatus.OK)
