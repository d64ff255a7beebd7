"""The pages of a new password. Plain HTML, for any browser, without a script."""

from html import escape
from http import HTTPStatus

from fastapi import Response

from api.form_pages import render_alert
from api.links.pages import render_page
from nac.people.service import MINIMUM_PASSWORD_CHARACTERS

_ASK_FORM = """\
<p>We send a link to your e-mail address, with which you choose a new one.</p>
{wrong}
<form method="post" action="/new-password">
<label class="field">Your e-mail address
<input type="email" name="email" required maxlength="254" autocomplete="email" value="{email}"></label>
<button>Send me the link</button>
</form>
<p><a href="/sign-in">Back to signing in</a></p>
"""
_CHOOSE_FORM = """\
{wrong}
<form method="post">
<label class="field">Password
<span class="hint">At least {least} characters: a few words that are yours.</span>
<input type="password" name="password" required minlength="{least}" maxlength="200" autocomplete="new-password"></label>
<label class="field">The same once more
<input type="password" name="again" required minlength="{least}" maxlength="200" autocomplete="new-password"></label>
<button>Set the password</button>
</form>
<p><span class="hint">Wherever you were signed in, you are signed out. A second factor stays as it is.</span></p>
"""
_DONE_PAGE = """\
<p>The password is set. Wherever you were signed in, you are signed out.</p>
<p><a class="button" href="/">Sign in</a></p>
"""


def render_email_form(*, email: str = "", wrong: str = "", status: int = HTTPStatus.OK) -> Response:
    return render_page("A new password", _ASK_FORM.format(wrong=render_alert(wrong), email=escape(email)), status)


def render_link_sent(sentence: str) -> Response:
    return render_page("Look into your mail", f"<p>{escape(sentence)}</p>", HTTPStatus.ACCEPTED)


def render_password_form(*, wrong: str = "", status: int = HTTPStatus.OK) -> Response:
    body = _CHOOSE_FORM.format(wrong=render_alert(wrong), least=MINIMUM_PASSWORD_CHARACTERS)
    return render_page("Choose a password", body, status)


def render_password_set() -> Response:
    return render_page("The password is set", _DONE_PAGE, HTTPStatus.OK)
