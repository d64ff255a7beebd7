"""One-time links to certificates, for a person with a browser."""

from fastapi import FastAPI

from api.links.routes import router
from nac.certificates.signing import Signing
from nac.enrolment.limiter import GuessLimiter


def include(app: FastAPI, signing: Signing) -> None:
    """Serve links in `app`."""
    app.state.signing = signing
    app.state.guess_limiter = GuessLimiter()
    app.include_router(router)
