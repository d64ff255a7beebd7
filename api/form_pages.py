"""Pages with a form, for any browser, without a script: what they read, and what they say where it is refused."""

from collections.abc import Iterable, Mapping
from html import escape
from http import HTTPStatus
from typing import Annotated, Final, NamedTuple

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


class Onward(NamedTuple):
    """A way onward."""

    to: str
    label: str


HOME: Final = Onward("/", "Go on")


def told(exc: AdmitError) -> str:
    """Raises what is wrong inside, which no page tells."""
    if exc.status >= HTTPStatus.INTERNAL_SERVER_ERROR and exc.retry_after_seconds is None:
        raise exc
    return f"{exc.detail} {without_commands(exc.remedy)}".strip()


def without_commands(remedy: str) -> str:
    """Who looks at a page has no command line of ours, and writes no requests."""
    return "" if "./admit" in remedy or "/v1/" in remedy else remedy


def refused(exc: AdmitError, *ways: Onward) -> Response:
    """With `ways` onward, or the usual one. Raises as `told`."""
    return page_of_refusal(told(exc), exc.status, ways or (HOME,), retry_headers(exc))


def refused_link(exc: AdmitError) -> Response:
    """As `refused`, where there is no other page."""
    return page_of_refusal(told(exc), exc.status, (), retry_headers(exc))


def page_of_refusal(
    sentence: str, status: int, ways: Iterable[Onward], headers: Mapping[str, str] | None = None
) -> Response:
    links = "".join(f'<p><a href="{escape(way.to)}">{escape(way.label)}</a></p>' for way in ways)
    return page("This does not work", f"<p>{escape(sentence)}</p>{links}", status, headers)


def wrong_sentence(sentence: str) -> str:
    return f'<p class="wrong" role="alert">{escape(sentence)}</p>' if sentence else ""
