"""Objects that an application keeps in `app.state`, and functions that return these objects for a request."""

from asyncio import Semaphore
from collections.abc import Sequence
from typing import Final
from weakref import WeakValueDictionary

from fastapi import FastAPI, Request

from api.slow_result_cache import SlowResultCache
from nac.certificates.enrolment.limiter import GuessLimiter
from nac.certificates.signing import SigningContext
from nac.kit.db import MAX_CONNECTIONS
from nac.kit.settings import Settings
from nac.sessions.usage import UsageRow

# Number of anyio threads for FastAPI: one for each database connection, and more for requests that wait until a change
# is live.
MAX_THREADS: Final = 40
# Maximum number of running requests for link pages in applications that also serve devices.
MAX_LINK_REQUESTS: Final = MAX_CONNECTIONS // 2
MAX_DEVICE_REQUESTS: Final = MAX_THREADS - MAX_LINK_REQUESTS


def prepare_signing(app: FastAPI, settings: Settings) -> SigningContext:
    """Load the master key, and store the SigningContext and the guess limiter in `app.state`. Raises KeyFileRefused."""
    signing = SigningContext.from_settings(settings)
    app.state.signing = signing
    app.state.guess_limiter = GuessLimiter()
    return signing


def get_signing(request: Request) -> SigningContext:
    signing: SigningContext = request.app.state.signing
    return signing


def get_settings(request: Request) -> Settings:
    settings: Settings = request.app.state.settings
    return settings


def get_guess_limiter(request: Request) -> GuessLimiter:
    """Return the limiter that counts wrong enrolment secrets in this process."""
    limiter: GuessLimiter = request.app.state.guess_limiter
    return limiter


def get_owner_shares(request: Request) -> WeakValueDictionary[object, Semaphore]:
    """Return the semaphores that limit running requests, by owner (tenant, MSP or person)."""
    shares: WeakValueDictionary[object, Semaphore] = request.app.state.shares
    return shares


def prepare_request_limit(app: FastAPI, places: int, *, whose: str = "") -> None:
    """Limit the number of running requests of a group of routes (api.thread_limits.LimitedRoute).

    `whose` is the name of the group of routes. `places` is the maximum number of running requests.
    """
    rooms = app.state.rooms

    def start() -> None:
        rooms[whose] = Semaphore(places)

    def stop() -> None:
        del rooms[whose]

    app.state.beside.append((start, stop))


def prepare_usage_cache(app: FastAPI) -> None:
    app.state.kept_usage = SlowResultCache[Sequence[UsageRow]]()


def get_usage_cache(request: Request) -> SlowResultCache[Sequence[UsageRow]]:
    kept: SlowResultCache[Sequence[UsageRow]] = request.app.state.kept_usage
    return kept


def get_wait_seconds(request: Request) -> float:
    """Return how long a request may use PostgreSQL, in seconds, including waits for a thread and a connection."""
    seconds: float = request.app.state.wait_seconds
    return seconds


def get_request_limit(request: Request, whose: str) -> Semaphore | None:
    """Return the semaphore of the group of routes with the name `whose`; None (no limit) if the application is not
    started.
    """
    rooms: dict[str, Semaphore] = request.app.state.rooms
    return rooms.get(whose)
