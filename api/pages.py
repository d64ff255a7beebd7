"""Renders browser pages with Jinja2 from `api/templates`. Each page extends `base.html`.

Templates escape every value. A value that the caller does not pass is an error, not an empty text.
"""

import base64
import hashlib
from collections.abc import Mapping
from datetime import UTC, datetime
from http import HTTPStatus
from pathlib import Path
from typing import Final

from fastapi.responses import HTMLResponse
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from nac.kit.advice import strip_steps
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


def render_page(
    template: str,
    *,
    status: int = HTTPStatus.OK,
    headers: Mapping[str, str] | None = None,
    script: str = "",
    **values: object,
) -> HTMLResponse:
    """Page from a template of `api/templates` and its values. `headers` override those of all pages.

    `script` is the path of a script of this origin; it may send requests to this origin. Raises
    jinja2.TemplateNotFound, and jinja2.UndefinedError if a value is missing.
    """
    content = _ENVIRONMENT.get_template(template).render(values, script=script)
    policy = (
        f"{_CONTENT_SECURITY_POLICY}; script-src 'self'; connect-src 'self'" if script else _CONTENT_SECURITY_POLICY
    )
    return HTMLResponse(content, status, {**PAGE_HEADERS, "Content-Security-Policy": policy, **(headers or {})})


def format_utc(time: datetime, form: str) -> str:
    return time.astimezone(UTC).strftime(form)


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
