"""Heartbeat, which shows that beat, broker and worker work together."""

import redis
from celery import shared_task

from nac.kit.clock import epoch_seconds
from nac.kit.settings import load_settings
from worker.constants import HEARTBEAT_KEY

_KEPT_SECONDS = 3600


@shared_task(name="worker.heartbeat")
def heartbeat() -> None:
    with redis.Redis.from_url(load_settings(required=("REDIS_URL",)).redis_url) as client:
        client.set(HEARTBEAT_KEY, epoch_seconds(), ex=_KEPT_SECONDS)
