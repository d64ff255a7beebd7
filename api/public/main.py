"""The public application; `python -m api.public` serves it."""

from fastapi import FastAPI

from api.application import make_application
from api.devices import serve_devices
from api.head import HeadAsGet
from api.limits import RateLimit
from api.links.serving import serve_links, show_refusals
from api.public import authorities, crl, scep
from api.public.ocsp import OcspEndpoint
from api.state import prepare_enrolling
from nac.certificates.responder import Responder
from nac.settings import Settings, load_settings
from pki.cms import MAX_MESSAGE_BYTES

REQUIRED = ("DATABASE_URL", "REDIS_URL")


def create_app(settings: Settings | None = None) -> FastAPI:
    """Settings come from the environment where none are given. Raises SettingsError, KeyFileRefused."""
    settings = settings or load_settings(required=REQUIRED)
    app = make_application(settings, title="Admit, public", name="admit-public", for_strangers=True)
    serve_devices(app, authorities.router, crl.router, scep.router, most_octets=MAX_MESSAGE_BYTES)
    signing = prepare_enrolling(app, settings)
    responder = Responder(app.state.engine, signing.sealer)
    app.state.beside.append((responder.start, responder.stop))
    app.mount("/ocsp", OcspEndpoint(responder, wait_seconds=app.state.wait_seconds))
    app.add_middleware(
        RateLimit, per_second=settings.public_requests_per_second, at_once=settings.connections_per_source
    )
    show_refusals(app)
    app.add_middleware(HeadAsGet)
    if settings.link_url == settings.public_url:
        serve_links(app)
    return app
