"""Probes for supervisors and load balancers."""

from asyncio import Future, ensure_future, get_running_loop, shield, timeout
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Literal

import redis
from fastapi import APIRouter, FastAPI, Request
from pydantic import BaseModel
from sqlalchemy import Engine
from starlette.datastructures import State

from nac.kit.db import limit_waiting, require_current_schema
from nac.kit.errors import DatabaseUnavailable

router = APIRouter(tags=["health"])

_REDIS_TIMEOUT_SECONDS = 1
_PROBE_THREADS = 2
# Load balancers commonly wait for two seconds. A busy process needs time to send the response.
_MAX_PROBE_SECONDS = 1.5
# Shorter than the time limit of the probe, so that the probe's thread becomes free soon.
_DATABASE_TIMEOUT_SECONDS = 1.2
_DATABASE_REMEDY = "Check that PostgreSQL is running."


class Alive(BaseModel):
    status: Literal["alive"] = "alive"


class Ready(BaseModel):
    status: Literal["ready"] = "ready"
    # Without Redis, requests work and jobs wait.
    redis: Literal["answers", "does not answer"]


@router.get("/healthz", operation_id="getHealth")
@router.head("/healthz", include_in_schema=False)
async def healthz() -> Alive:
    """Check that the process is running."""
    return Alive()


@router.get("/readyz", operation_id="getReadiness")
@router.head("/readyz", include_in_schema=False)
async def readyz(request: Request) -> Ready:
    """Check that the database is reachable and has the schema of this version.

    If a check fails, the response is 503 with the reason.
    """
    state = request.app.state
    if state.probe is None:
        state.probe = ensure_future(
            get_running_loop().run_in_executor(state.probing_threads, _check_readiness, request)
        )
        state.probe.add_done_callback(partial(_clear_probe, state))
    try:
        async with timeout(_MAX_PROBE_SECONDS):
            ready: Ready = await shield(state.probe)
            return ready
    except TimeoutError as exc:
        raise DatabaseUnavailable(
            f"PostgreSQL did not respond within {_MAX_PROBE_SECONDS:g} s.", remedy=_DATABASE_REMEDY
        ) from exc


def _clear_probe(state: State, probe: Future[Ready]) -> None:
    state.probe = None
    # Mark the exception as retrieved: the client may have disconnected.
    if not probe.cancelled():
        probe.exception()


def prepare_probes(app: FastAPI, engine: Engine) -> None:
    """Create threads and a database engine for probes, so that probes do not wait for connections of requests.

    Probes run one at a time, on one connection.
    """

    def start() -> None:
        app.state.probing_threads = ThreadPoolExecutor(_PROBE_THREADS, thread_name_prefix="probe")

    def stop() -> None:
        app.state.probing_threads.shutdown()
        engine.dispose()

    # None selects the threads of the event loop, for tests in which the application is not started.
    app.state.probing_threads = None
    app.state.probing_engine = engine
    # The running probe, which concurrent callers share.
    app.state.probe = None
    app.state.beside.append((start, stop))


def _check_readiness(request: Request) -> Ready:
    with limit_waiting(_DATABASE_TIMEOUT_SECONDS):
        require_current_schema(request.app.state.probing_engine)
    return Ready(redis="answers" if _is_redis_up(request.app.state.redis) else "does not answer")


def connect_redis(url: str) -> redis.Redis:
    """Return a Redis client, which connects at the first command."""
    return redis.Redis.from_url(
        url, socket_timeout=_REDIS_TIMEOUT_SECONDS, socket_connect_timeout=_REDIS_TIMEOUT_SECONDS
    )


def _is_redis_up(client: redis.Redis) -> bool:
    try:
        return bool(client.ping())
    except redis.RedisError:
        return False
