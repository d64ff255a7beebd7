"""Renders browser pages with Jinja2 from `api/templates`. Each page extends `base.html`.

Templates escape every value. A value that the caller does not pass is an error, not an empty text.
"""

import base64
import hashlib
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from http import HTTPStatus
from pathlib import Path
from typing import Final, NamedTuple

from fastapi import Response
from fastapi.responses import HTMLResponse
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from api.errors import build_retry_headers
from nac.kit.advice import Advice, strip_steps
from nac.kit.errors import AdmitError
from nac.kit.mac import display_mac

_FOLDER: Final = Path(__file__).parent / "templates"
_STYLE: Final = (_FOLDER / "style.css").read_text(encoding="utf-8")
_STYLE_HASH: Final = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
_CONTENT_SECURITY_POLICY: Final = (
    f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
_SCRIPT_POLICY: Final = "script-src 'self'; connect-src 'self'"
PAGE_HEADERS: Final[Mapping[str, str]] = {
    "Cache-Control": "no-store",
    # Browsers send the Origin of a form, but no address with a token to other sites.
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "X-Robots-Tag": "noindex",
    "Content-Security-Policy": _CONTENT_SECURITY_POLICY,
}


class PageLink(NamedTuple):
    to: str
    label: str


HOME_LINK: Final = PageLink("/", "Continue")


def render_page(
    template: str,
    *,
    status: int = HTTPStatus.OK,
    headers: Mapping[str, str] | None = None,
    script: str = "",
    **values: object,
) -> HTMLResponse:
    """Page from a template of `api/templates` and its values. `headers` override the headers that all pages have.

    `script` is the path of a script on this origin. The script can send requests only to this origin. Raises
    jinja2.TemplateNotFound, and jinja2.UndefinedError if a value is missing.
    """
    content = _ENVIRONMENT.get_template(template).render(values, script=script)
    policy = f"{_CONTENT_SECURITY_POLICY}; {_SCRIPT_POLICY}" if script else _CONTENT_SECURITY_POLICY
    return HTMLResponse(content, status, {**PAGE_HEADERS, "Content-Security-Policy": policy, **(headers or {})})


def format_utc(time: datetime, form: str) -> str:
    return time.astimezone(UTC).strftime(form)


def describe_error(exc: AdmitError) -> str:
    """Return detail and remedy of the error.

    Raises an internal error again, because pages do not show internal errors.
    """
    if exc.status >= HTTPStatus.INTERNAL_SERVER_ERROR and exc.retry_after_seconds is None:
        raise exc
    return f"{exc.detail} {omit_operations(exc.remedy)}".strip()


def omit_operations(remedy: str) -> str:
    """Return the remedy, or "" if the remedy names an operation or a path of the API.

    Readers of a page do not use the API.
    """
    is_of_api = any(step.operation_id for step in remedy.steps) if isinstance(remedy, Advice) else "/v1/" in remedy
    return "" if is_of_api else strip_steps(remedy)


def render_error_page(exc: AdmitError, *links: PageLink) -> Response:
    """Return an error page with the links, or with a link to the home page. Raises the errors of `describe_error`."""
    return build_error_page(describe_error(exc), exc.status, links or (HOME_LINK,), build_retry_headers(exc))


def render_error_page_without_links(exc: AdmitError) -> Response:
    """Return an error page without links. Raises the errors of `describe_error`."""
    return build_error_page(describe_error(exc), exc.status, (), build_retry_headers(exc))


def build_error_page(
    sentence: str, status: int, links: Iterable[PageLink], headers: Mapping[str, str] | None = None
) -> Response:
    return render_page("error.html", status=status, headers=headers, sentence=sentence, links=tuple(links))


def _create_environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(_FOLDER),
        autoescape=True,
        undefined=StrictUndefined,
        # Templates do not change while the process runs.
        auto_reload=False,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals["style"] = _STYLE
    environment.filters |= {"utc": format_utc, "mac": display_mac, "without_steps": strip_steps}
    return environment


_ENVIRONMENT: Final = _create_environment()
