"""Alarms of the platform, published for readers that have no database access."""

import json

import redis
from celery import shared_task

from nac.core import alarms
from nac.kit.db import PlatformScope, session_scope
from nac.kit.settings import load_settings
from worker.constants import ALARMS_INTERVAL_SECONDS, ALARMS_KEY


@shared_task(name="alarms.publish")
def publish() -> None:
    """Publish the active alarms in Redis. The alarms expire there if the worker stops publishing them."""
    with session_scope(PlatformScope()) as session:
        standing = [
            {"code": alarm.code, "detail": alarm.detail, "since": alarm.since.isoformat()}
            for alarm in alarms.list_alarms(session)
        ]
    with redis.Redis.from_url(load_settings(required=("REDIS_URL",)).redis_url) as client:
        client.set(ALARMS_KEY, json.dumps(standing), ex=20 * ALARMS_INTERVAL_SECONDS)
