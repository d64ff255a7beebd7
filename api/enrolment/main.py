"""The enrolment application. It needs TLS that tells it the peer's certificate: `python -m api.enrolment` serves it."""

from http import HTTPStatus

from fastapi import FastAPI, Request
from fastapi.responses import PlainTextResponse

from api import form_pages
from api.application import make_application
from api.enrolment import est
from api.errors import retry_headers, told
from api.head import HeadAsGet
from api.limits import RateLimit
from api.links import routes as links
from api.routes import add_routes
from api.state import LINKS_MOST, prepare_enrolling, prepare_room
from api.turns import in_room
from nac.errors import AdmitError, InvalidInput
from nac.settings import Settings, load_settings

REQUIRED = ("DATABASE_URL", "REDIS_URL", "MASTER_KEY_FILE")


def create_app(settings: Settings | None = None) -> FastAPI:
    """Settings come from the environment where none are given. Raises SettingsError, KeyFileRefused."""
    settings = settings or load_settings(required=REQUIRED)
    app = make_application(settings, title="Admit, enrolment", name="admit-enrolment", for_strangers=True)
    for prefix in (est.PREFIX, est.PREFIX_WITHOUT_LABEL):
        app.include_router(est.router, prefix=prefix)
    prepare_enrolling(app, settings)
    if settings.link_url == settings.enrolment_url:
        pages = in_room(links.router.routes, refused=form_pages.refused_link, most_octets=links.MOST_FORM_OCTETS)
        add_routes(app, pages)
        prepare_room(app, LINKS_MOST)
    app.add_exception_handler(AdmitError, _in_words)
    app.add_middleware(
        RateLimit, per_second=settings.public_requests_per_second, at_once=settings.connections_per_source
    )
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
