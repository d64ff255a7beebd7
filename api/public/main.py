"""The public application, which `python -m api.public` serves."""

from fastapi import FastAPI

from api.application import add_device_routes, create_application
from api.application_state import prepare_signing
from api.link_pages import add_browser_errors, add_link_routes
from api.public import authority_files, scep
from api.public.ocsp import OcspEndpoint
from api.source_rate_limit import SourceRateLimit
from nac.certificates.ocsp_responder import OcspResponder
from nac.kit.settings import Settings, load_settings
from pki.cms import MAX_MESSAGE_BYTES

REQUIRED_SETTINGS = ("DATABASE_URL", "REDIS_URL")


def create_app(settings: Settings | None = None) -> FastAPI:
    """Create the public application. The default of `settings` comes from environment variables.

    Raises SettingsError and KeyFileRefused.
    """
    settings = settings or load_settings(required=REQUIRED_SETTINGS)
    app = create_application(settings, title="Admit, public", name="admit-public", for_strangers=True)
    add_device_routes(app, authority_files.router, scep.router, most_octets=MAX_MESSAGE_BYTES)
    signing = prepare_signing(app, settings)
    responder = OcspResponder(app.state.engine, signing.sealer)
    app.state.beside.append((responder.start, responder.stop))
    app.mount("/ocsp", OcspEndpoint(responder, wait_seconds=app.state.wait_seconds))
    app.add_middleware(
        SourceRateLimit, per_second=settings.public_requests_per_second, at_once=settings.connections_per_source
    )
    add_browser_errors(app)
    if settings.link_url == settings.public_url:
        add_link_routes(app)
    return app
