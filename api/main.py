"""The API's application, as uvicorn starts it: `uvicorn --factory api.main:create_app`."""

from fastapi import FastAPI

from api.application import make_application
from nac.settings import Settings, load_settings


def create_app(settings: Settings | None = None) -> FastAPI:
    """Settings come from the environment where none are given. Raises SettingsError."""
    settings = settings or load_settings(required=("DATABASE_URL", "REDIS_URL"))
    return make_application(settings, title="Admit", name="admit-api")
