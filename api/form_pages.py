"""Pages with a form: their fields and their errors. No scripts."""

from collections.abc import Iterable, Mapping
from html import escape
from http import HTTPStatus
from typing import Annotated, Final, NamedTuple

from fastapi import Depends, Request, Response

from api.bodies import require_bounded_body
from api.errors import build_retry_headers
from api.forms import read_form
from api.json_input import accept_body
from api.links.pages import render_page
from nac.kit.errors import AdmitError

_MAX_FORM_OCTETS = 8 * 1024
FORM_OPENAPI = accept_body(most_bytes=_MAX_FORM_OCTETS, media_type="application/x-www-form-urlencoded")
FormBody = Annotated[bytes, Depends(require_bounded_body(_MAX_FORM_OCTETS))]


def read_fields(request: Request, body: bytes) -> dict[str, str]:
    found = read_form(request.headers.get("content-type", ""), body)
    return {name: value.decode("utf-8", "replace") for name, value in found.items()}


class PageLink(NamedTuple):
    """A link to another page."""

    to: str
    label: str


HOME_LINK: Final = PageLink("/", "Continue")


def describe_error(exc: AdmitError) -> str:
    """Detail and remedy of the error. Raises the error again if it is internal: pages do not show those."""
    if exc.status >= HTTPStatus.INTERNAL_SERVER_ERROR and exc.retry_after_seconds is None:
        raise exc
    return f"{exc.detail} {omit_commands(exc.remedy)}".strip()


def omit_commands(remedy: str) -> str:
    """The remedy, or "" if it names a command or an API path, which readers of a page do not use."""
    return "" if "./admit" in remedy or "/v1/" in remedy else remedy


def render_error_page(exc: AdmitError, *ways: PageLink) -> Response:
    """Error page with links `ways`, or with the link to the home page. Raises as `told`."""
    return build_error_page(describe_error(exc), exc.status, ways or (HOME_LINK,), build_retry_headers(exc))


def render_error_page_without_links(exc: AdmitError) -> Response:
    """Error page without links. Raises as `told`."""
    return build_error_page(describe_error(exc), exc.status, (), build_retry_headers(exc))


def build_error_page(
    sentence: str, status: int, ways: Iterable[PageLink], headers: Mapping[str, str] | None = None
) -> Response:
    links = "".join(f'<p><a href="{escape(way.to)}">{escape(way.label)}</a></p>' for way in ways)
    return render_page("This does not work", f"<p>{escape(sentence)}</p>{links}", status, headers)


def render_alert(sentence: str) -> str:
    return f'<p class="wrong" role="alert">{escape(sentence)}</p>' if sentence else ""
