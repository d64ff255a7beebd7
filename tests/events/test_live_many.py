"""With many tenants listened to, each gets its events, and Redis memory stays bounded."""

import time
from uuid import UUID

import pytest
import redis

from nac.clock import utc_now
from nac.events import feed as feed_events
from nac.events.live_stream import MAX_ENTRIES, MAX_ENTRY_BYTES, events_key, interest_key
from radius.agent import live
from radius.agent.live import KEPT_IN_ALL, LEAST_KEPT, LiveFeed, Told
from tests.redis_server import RedisServer

# Slots of the largest cell.
MOST = 400


@pytest.fixture
def server():
    server = RedisServer()
    server.start()
    yield server
    server.remove()


def event(tenant):
    return feed_events.build_feed_tested("x", now=utc_now(), tenant=tenant)


@pytest.mark.parametrize(("listened", "kept"), [(3, MAX_ENTRIES), (120, 26), (MOST, LEAST_KEPT)])
def test_each_of_many_tenants_gets_its_events(server, listened, kept, monkeypatch):
    monkeypatch.setattr(live, "ASK_SECONDS", 3_600.0)
    slugs = {str(UUID(int=number)): f"t{number}" for number in range(MOST)}
    wanted = list(slugs)[:listened]
    feed = LiveFeed(server.url, lambda: slugs, cell="cell-1")
    with redis.Redis.from_url(server.url) as client:
        for tenant_id in wanted:
            client.set(interest_key(tenant_id), "1")
        feed._ask(time.monotonic())
        assert feed.wanted == frozenset(wanted)
        for _ in range(kept + 5):
            feed.offer([Told(tenant_id, 100, event) for tenant_id in wanted[-2:]])
            feed._step()
            feed._credit = live.BURST
        assert [client.xlen(events_key(tenant_id)) for tenant_id in wanted[-2:]] == [kept, kept]
        assert all(client.xlen(events_key(tenant_id)) for tenant_id in wanted)
    assert kept * listened <= KEPT_IN_ALL
    assert KEPT_IN_ALL * MAX_ENTRY_BYTES <= 100 << 20
    assert feed.counters["left_out"] == 0
