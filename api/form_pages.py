"""Pages with a form, for any browser, without a script: what they read, and what they say where it is refused."""

from html import escape
from typing import Annotated

from fastapi import Depends, Request, Response

from api.bodies import bounded_body
from api.errors import retry_headers
from api.forms import read_form
from api.json_input import takes
from api.links.pages import page
from nac.errors import AdmitError

_MOST_FORM_OCTETS = 8 * 1024
FORM = takes(most_bytes=_MOST_FORM_OCTETS, media_type="application/x-www-form-urlencoded")
Body = Annotated[bytes, Depends(bounded_body(_MOST_FORM_OCTETS))]


def fields(request: Request, body: bytes) -> dict[str, str]:
    found = read_form(request.headers.get("content-type", ""), body)
    return {name: value.decode("utf-8", "replace") for name, value in found.items()}


def told(exc: AdmitError) -> str:
    return f"{exc.detail} {exc.remedy}".strip()


def refused(exc: AdmitError) -> Response:
    # What is wrong inside is told by no page.
    if exc.status >= 500 and exc.retry_after_seconds is None:
        raise exc
    return page("This does not work", f"<p>{escape(told(exc))}</p>", exc.status, retry_headers(exc))


def wrong_sentence(sentence: str) -> str:
    return f'<p class="wrong" role="alert">{escape(sentence)}</p>' if sentence else ""
