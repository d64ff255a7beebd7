"""The enrolment application. It needs TLS that tells it the peer's certificate: `python -m api.enrolment` serves it."""

from http import HTTPStatus

from fastapi import FastAPI, Request
from fastapi.responses import PlainTextResponse

from api.application import make_application
from api.devices import serve_devices
from api.enrolment import est
from api.errors import retry_headers, told
from api.head import HeadAsGet
from api.limits import RateLimit
from api.links.serving import serve_links, show_refusals
from api.state import prepare_enrolling
from nac.errors import AdmitError, InvalidInput
from nac.settings import Settings, load_settings
from pki.est import MAX_BODY_OCTETS

REQUIRED = ("DATABASE_URL", "REDIS_URL", "MASTER_KEY_FILE")


def create_app(settings: Settings | None = None) -> FastAPI:
    """Settings come from the environment where none are given. Raises SettingsError, KeyFileRefused."""
    settings = settings or load_settings(required=REQUIRED)
    app = make_application(settings, title="Admit, enrolment", name="admit-enrolment", for_strangers=True)
    serve_devices(app, est.router, most_octets=MAX_BODY_OCTETS)
    prepare_enrolling(app, settings)
    if settings.link_url == settings.enrolment_url:
        serve_links(app)
    app.add_exception_handler(AdmitError, _in_words)
    app.add_middleware(
        RateLimit, per_second=settings.public_requests_per_second, at_once=settings.connections_per_source
    )
    show_refusals(app)
    app.add_middleware(HeadAsGet)
    return app


async def _in_words(request: Request, exc: Exception) -> PlainTextResponse:
    """EST clients show what they are told as it is (RFC 7030 4.2.3)."""
    assert isinstance(exc, AdmitError)
    exc = told(request, exc)
    headers = retry_headers(exc)
    if exc.status == HTTPStatus.UNAUTHORIZED:
        headers["WWW-Authenticate"] = 'Basic realm="enrolment", charset="UTF-8"'
    # What HTTP calls a bad request is what EST clients know.
    status = HTTPStatus.BAD_REQUEST if isinstance(exc, InvalidInput) else exc.status
    return PlainTextResponse(f"{exc}\n", status, headers)
