"""Error pages: a sentence that says what is wrong, and links to other pages."""

from collections.abc import Iterable, Mapping
from http import HTTPStatus
from typing import Final, NamedTuple

from fastapi import Response

from api.errors import build_retry_headers
from api.pages import render_page
from nac.kit.advice import Advice, strip_steps
from nac.kit.errors import AdmitError


class PageLink(NamedTuple):
    """A link to another page."""

    to: str
    label: str


HOME_LINK: Final = PageLink("/", "Continue")


def describe_error(exc: AdmitError) -> str:
    """Detail and remedy of the error. Raises the error again if it is internal: pages do not show those."""
    if exc.status >= HTTPStatus.INTERNAL_SERVER_ERROR and exc.retry_after_seconds is None:
        raise exc
    return f"{exc.detail} {omit_operations(exc.remedy)}".strip()


def omit_operations(remedy: str) -> str:
    """The remedy, or "" if it names an operation or a path of the API, which readers of a page do not use."""
    is_of_api = any(step.operation_id for step in remedy.steps) if isinstance(remedy, Advice) else "/v1/" in remedy
    return "" if is_of_api else strip_steps(remedy)


def render_error_page(exc: AdmitError, *links: PageLink) -> Response:
    """Error page with the links, or with the link to the home page. Raises as `describe_error`."""
    return build_error_page(describe_error(exc), exc.status, links or (HOME_LINK,), build_retry_headers(exc))


def render_error_page_without_links(exc: AdmitError) -> Response:
    """Error page without links. Raises as `describe_error`."""
    return build_error_page(describe_error(exc), exc.status, (), build_retry_headers(exc))


def build_error_page(
    sentence: str, status: int, links: Iterable[PageLink], headers: Mapping[str, str] | None = None
) -> Response:
    return render_page("error.html", status=status, headers=headers, sentence=sentence, links=tuple(links))
