"""Many tenants have listeners. Each listener gets its tenant's events, and the memory of Redis is limited."""

import time
from uuid import UUID

import pytest
import redis

from nac.kit.clock import utc_now
from nac.logs.events import feed as feed_events
from nac.logs.events.live_stream import MAX_ENTRIES, MAX_ENTRY_BYTES, events_key, interest_key
from radius.agent.shipping import live_feed
from radius.agent.shipping.live_feed import MAX_KEPT_ENTRIES, MIN_KEPT_ENTRIES, LiveFeed, LiveItem
from tests.redis_server import RedisServer

# The number of slots of the largest cell.
MOST = 400


@pytest.fixture
def server():
    server = RedisServer()
    server.start()
    yield server
    server.remove()


def event(tenant):
    return feed_events.build_feed_tested("x", now=utc_now(), tenant=tenant)


@pytest.mark.parametrize(("listened", "kept"), [(3, MAX_ENTRIES), (120, 26), (MOST, MIN_KEPT_ENTRIES)])
def test_each_of_many_tenants_gets_its_events(server, listened, kept, monkeypatch):
    monkeypatch.setattr(live_feed, "LISTENER_POLL_SECONDS", 3_600.0)
    slugs = {str(UUID(int=number)): f"t{number}" for number in range(MOST)}
    wanted = list(slugs)[:listened]
    feed = LiveFeed(server.url, lambda: slugs, cell="cell-1")
    with redis.Redis.from_url(server.url) as client:
        for tenant_id in wanted:
            client.set(interest_key(tenant_id), "1")
        feed._ask(time.monotonic())
        assert feed.wanted == frozenset(wanted)
        for _ in range(kept + 5):
            feed.offer([LiveItem(tenant_id, 100, event) for tenant_id in wanted[-2:]])
            feed._step()
            feed._credit = live_feed.BURST_EVENTS
        assert [client.xlen(events_key(tenant_id)) for tenant_id in wanted[-2:]] == [kept, kept]
        assert all(client.xlen(events_key(tenant_id)) for tenant_id in wanted)
    assert kept * listened <= MAX_KEPT_ENTRIES
    assert MAX_KEPT_ENTRIES * MAX_ENTRY_BYTES <= 100 << 20
    assert feed.counters["left_out"] == 0
