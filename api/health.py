"""Probes for supervisors and load balancers."""

from typing import Literal

import redis
from fastapi import APIRouter, Request
from pydantic import BaseModel
from sqlalchemy import Engine

from nac.db import require_current_schema

router = APIRouter(tags=["health"])

_REDIS_TIMEOUT_SECONDS = 1


class Alive(BaseModel):
    status: Literal["alive"] = "alive"


class Ready(BaseModel):
    status: Literal["ready"] = "ready"
    # Jobs wait while Redis is away; requests are served without it.
    redis: Literal["answers", "does not answer"]


@router.get("/healthz", operation_id="getHealth")
def healthz() -> Alive:
    """The process runs and answers."""
    return Alive()


@router.get("/readyz", operation_id="getReadiness")
def readyz(request: Request) -> Ready:
    """Requests can be served: the database answers and has this version's schema. 503 with the reason otherwise."""
    engine: Engine = request.app.state.engine
    require_current_schema(engine)
    return Ready(redis="answers" if _redis_answers(request.app.state.redis) else "does not answer")


def connect_redis(url: str) -> redis.Redis:
    """A client; nothing connects yet."""
    return redis.Redis.from_url(
        url, socket_timeout=_REDIS_TIMEOUT_SECONDS, socket_connect_timeout=_REDIS_TIMEOUT_SECONDS
    )


def _redis_answers(client: redis.Redis) -> bool:
    try:
        return bool(client.ping())
    except redis.RedisError:
        return False
