"""One-time links to certificates, for a person with a browser."""

from fastapi import FastAPI

from api.links.routes import router
from nac.certificates.signing import Signing
from nac.enrolment.limiter import GuessLimiter
from nac.settings import Settings


def include(app: FastAPI, settings: Settings) -> None:
    """Serve links in `app`. Raises KeyFileRefused."""
    app.state.signing = Signing.from_settings(settings)
    app.state.guess_limiter = GuessLimiter()
    app.include_router(router)
