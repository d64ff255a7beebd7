"""Delivers events to feeds."""

import asyncio
import socket
from functools import cache, partial

from celery import shared_task

from nac.kit.db import PlatformScope, session_scope
from nac.kit.secrets import MasterKeyFile, Sealer
from nac.kit.settings import load_settings
from nac.logs.feeds import delivery_turns
from nac.logs.feeds.delivery import DeliveryContext, deliver_feed

# Seconds until the worker leaves one feed and continues with another feed.
_FEED_BUDGET_SECONDS = 5.0
# Seconds until a run ends. With the time for pending requests, a run stays below the time limit of jobs.
_TIME_BUDGET_SECONDS = 120.0


@shared_task(name="feeds.deliver")
def deliver_all() -> None:
    """Send due events. Only one process of a worker sends events at a time."""
    with session_scope(PlatformScope()) as session:
        delivery_turns.restart_restored_feeds(session)
    with session_scope(PlatformScope()) as session:
        if not delivery_turns.try_lock_machine(session, socket.gethostname()) or not delivery_turns.list_due(session):
            return
        settings = load_settings()
        ways = DeliveryContext(settings.outbound_reach, cache(lambda: Sealer(MasterKeyFile(settings.master_key_file))))
        asyncio.run(
            delivery_turns.deliver_due(
                session, partial(deliver_feed, ways=ways, seconds=_FEED_BUDGET_SECONDS), seconds=_TIME_BUDGET_SECONDS
            )
        )
