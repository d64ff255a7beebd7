"""The public application, as uvicorn starts it: `uvicorn --factory api.public.main:create_app`."""

from fastapi import FastAPI

from api import links
from api.application import make_application
from api.public import authorities
from nac.settings import Settings, load_settings


def create_app(settings: Settings | None = None) -> FastAPI:
    """Settings come from the environment where none are given. Raises SettingsError."""
    settings = settings or load_settings(required=("DATABASE_URL", "REDIS_URL"))
    app = make_application(settings, authorities.router, title="Admit, public", name="admit-public", described=False)
    if settings.link_url == settings.public_url:
        links.include(app, settings)
    return app
