"""What applications that hand out certificates keep beside their requests, and how a request comes by it."""

from asyncio import Semaphore
from collections.abc import Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from typing import Final
from weakref import WeakValueDictionary

from fastapi import FastAPI, Request

from api.kept_answers import KeptAnswers
from nac.certificates.signing import Signing
from nac.db import CONNECTIONS_MOST
from nac.enrolment.limiter import GuessLimiter
from nac.sessions.usage import UsageRow
from nac.settings import Settings

# Of anyio, for what FastAPI does: those that wait until a change is live, and as many others as there are connections.
THREADS_MOST: Final = 40
# Links that are opened at a time where devices come as well, to which threads and connections are left.
LINKS_MOST: Final = CONNECTIONS_MOST // 2
DEVICES_MOST: Final = THREADS_MOST - LINKS_MOST


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


def prepare_reading(app: FastAPI) -> None:
    """Threads of api.quick_reads: each takes a connection to the database, of which there are no more."""
    app.state.kept_usage = KeptAnswers[Sequence[UsageRow]]()

    def start() -> None:
        app.state.reading_threads = ThreadPoolExecutor(CONNECTIONS_MOST, thread_name_prefix="read")

    def stop() -> None:
        app.state.reading_threads.shutdown()

    # Of one that is not started, as tests have it: those of the event loop.
    app.state.reading_threads = None
    app.state.beside.append((start, stop))


def shares_of(request: Request) -> WeakValueDictionary[object, Semaphore]:
    """By owner, as long as requests of it run or wait."""
    shares: WeakValueDictionary[object, Semaphore] = request.app.state.shares
    return shares


def prepare_room(app: FastAPI, places: int, *, whose: str = "") -> None:
    """How many requests of api.turns.InRoom are done at a time, where an application has several rooms: in that one."""
    rooms = app.state.rooms

    def start() -> None:
        rooms[whose] = Semaphore(places)

    def stop() -> None:
        del rooms[whose]

    app.state.beside.append((start, stop))


def reading_threads_of(request: Request) -> Executor | None:
    threads: Executor | None = request.app.state.reading_threads
    return threads


def kept_usage_of(request: Request) -> KeptAnswers[Sequence[UsageRow]]:
    kept: KeptAnswers[Sequence[UsageRow]] = request.app.state.kept_usage
    return kept


def wait_seconds_of(request: Request) -> float:
    """Until a request has heard from PostgreSQL; to wait for a thread and a connection counts as well."""
    seconds: float = request.app.state.wait_seconds
    return seconds


def room_of(request: Request, whose: str) -> Semaphore | None:
    """None for any number, of an application that is not started."""
    rooms: dict[str, Semaphore] = request.app.state.rooms
    return rooms.get(whose)
