"""The public application, as uvicorn starts it: `uvicorn --factory api.public.main:create_app`."""

from fastapi import FastAPI

from api.application import make_application
from api.public import authorities, scep
from nac.certificates.signing import Signing
from nac.enrolment.limiter import GuessLimiter
from nac.settings import Settings, load_settings


def create_app(settings: Settings | None = None) -> FastAPI:
    """Settings come from the environment where none are given. Raises SettingsError, KeyFileRefused."""
    settings = settings or load_settings(required=("DATABASE_URL", "REDIS_URL"))
    app = make_application(
        settings, authorities.router, scep.router, title="Admit, public", name="admit-public", described=False
    )
    app.state.signing = Signing.from_settings(settings)
    app.state.guess_limiter = GuessLimiter()
    return app
