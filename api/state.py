"""What applications that hand out certificates keep beside their requests, and how a request comes by it."""

from fastapi import FastAPI, Request

from nac.certificates.signing import Signing
from nac.enrolment.limiter import GuessLimiter
from nac.settings import Settings


def prepare_enrolling(app: FastAPI, settings: Settings) -> Signing:
    """Raises KeyFileRefused."""
    signing = Signing.from_settings(settings)
    app.state.signing = signing
    app.state.guess_limiter = GuessLimiter()
    return signing


def signing_of(request: Request) -> Signing:
    signing: Signing = request.app.state.signing
    return signing


def settings_of(request: Request) -> Settings:
    settings: Settings = request.app.state.settings
    return settings


def guesses_of(request: Request) -> GuessLimiter:
    """Of all that is guessed at in this process."""
    limiter: GuessLimiter = request.app.state.guess_limiter
    return limiter
