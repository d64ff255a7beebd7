"""The pages of a new password. Plain HTML, for any browser, without a script."""

from html import escape
from http import HTTPStatus

from fastapi import Response

from api.form_pages import wrong_sentence
from api.links.pages import page
from nac.people.service import MINIMUM_PASSWORD_CHARACTERS

_ASK = """\
<p>We send a link to your e-mail address, with which you choose a new one.</p>
{wrong}
<form method="post" action="/new-password">
<label class="field">Your e-mail address
<input type="email" name="email" required maxlength="254" autocomplete="email" value="{email}"></label>
<button>Send me the link</button>
</form>
<p><a href="/sign-in">Back to signing in</a></p>
"""
_CHOOSE = """\
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
_SET = """\
<p>The password is set. Wherever you were signed in, you are signed out.</p>
<p><a class="button" href="/">Sign in</a></p>
"""


def ask(*, email: str = "", wrong: str = "", status: int = HTTPStatus.OK) -> Response:
    return page("A new password", _ASK.format(wrong=wrong_sentence(wrong), email=escape(email)), status)


def asked(sentence: str) -> Response:
    return page("Look into your mail", f"<p>{escape(sentence)}</p>", HTTPStatus.ACCEPTED)


def choose(*, wrong: str = "", status: int = HTTPStatus.OK) -> Response:
    body = _CHOOSE.format(wrong=wrong_sentence(wrong), least=MINIMUM_PASSWORD_CHARACTERS)
    return page("Choose a password", body, status)


def is_set() -> Response:
    return page("The password is set", _SET, HTTPStatus.OK)
