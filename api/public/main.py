"""The public application; `python -m api.public` serves it."""

from fastapi import FastAPI

from api import form_pages
from api.application import make_application
from api.head import HeadAsGet
from api.limits import RateLimit
from api.links import routes as links
from api.public import authorities, crl, scep
from api.public.ocsp import OcspEndpoint
from api.routes import add_routes
from api.state import LINKS_MOST, prepare_enrolling, prepare_room
from api.turns import in_room
from nac.certificates.responder import Responder
from nac.settings import Settings, load_settings

REQUIRED = ("DATABASE_URL", "REDIS_URL")


def create_app(settings: Settings | None = None) -> FastAPI:
    """Settings come from the environment where none are given. Raises SettingsError, KeyFileRefused."""
    settings = settings or load_settings(required=REQUIRED)
    routers = (authorities.router, crl.router, scep.router)
    app = make_application(settings, *routers, title="Admit, public", name="admit-public", for_strangers=True)
    signing = prepare_enrolling(app, settings)
    responder = Responder(app.state.engine, signing.sealer)
    app.state.beside.append((responder.start, responder.stop))
    app.mount("/ocsp", OcspEndpoint(responder))
    app.add_middleware(
        RateLimit, per_second=settings.public_requests_per_second, at_once=settings.connections_per_source
    )
    app.add_middleware(HeadAsGet)
    if settings.link_url == settings.public_url:
        pages = in_room(links.router.routes, refused=form_pages.refused_link, most_octets=links.MOST_FORM_OCTETS)
        add_routes(app, pages)
        prepare_room(app, LINKS_MOST)
    return app
