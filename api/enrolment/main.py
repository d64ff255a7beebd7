"""The enrolment application. `python -m api.enrolment` serves the application, with TLS client certificates."""

from http import HTTPStatus

from fastapi import FastAPI, Request
from fastapi.responses import PlainTextResponse

from api.application import add_device_routes, create_application
from api.application_state import prepare_signing
from api.enrolment import est
from api.errors import build_retry_headers, redact_error
from api.link_pages import add_browser_errors, add_link_routes
from api.source_rate_limit import SourceRateLimit
from nac.kit.errors import AdmitError, InvalidInput
from nac.kit.settings import Settings, load_settings
from pki.est import MAX_BODY_OCTETS

REQUIRED_SETTINGS = ("DATABASE_URL", "REDIS_URL", "MASTER_KEY_FILE")


def create_app(settings: Settings | None = None) -> FastAPI:
    """Create the enrolment application. The default of `settings` comes from environment variables.

    Raises SettingsError, KeyFileRefused.
    """
    settings = settings or load_settings(required=REQUIRED_SETTINGS)
    app = create_application(settings, title="Admit, enrolment", name="admit-enrolment", for_strangers=True)
    add_device_routes(app, est.router, most_octets=MAX_BODY_OCTETS)
    prepare_signing(app, settings)
    if settings.link_url == settings.enrolment_url:
        add_link_routes(app)
    app.add_exception_handler(AdmitError, _render_plain_text_error)
    app.add_middleware(
        SourceRateLimit, per_second=settings.public_requests_per_second, at_once=settings.connections_per_source
    )
    add_browser_errors(app)
    return app


async def _render_plain_text_error(request: Request, exc: Exception) -> PlainTextResponse:
    """Render an error as plain text, which EST clients display (RFC 7030 4.2.3)."""
    assert isinstance(exc, AdmitError)
    exc = redact_error(request, exc)
    headers = build_retry_headers(exc)
    if exc.status == HTTPStatus.UNAUTHORIZED:
        headers["WWW-Authenticate"] = 'Basic realm="enrolment", charset="UTF-8"'
    # EST clients know 400, not 422.
    status = HTTPStatus.BAD_REQUEST if isinstance(exc, InvalidInput) else exc.status
    return PlainTextResponse(f"{exc}\n", status, headers)
