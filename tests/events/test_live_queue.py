"""The queue for listeners and its Redis streams are limited, and shared fairly among tenants."""

import time
from uuid import UUID

import pytest
import redis

from nac.kit.clock import utc_now
from nac.logs.events import feed as feed_events
from nac.logs.events.live_stream import MAX_ENTRIES, MAX_ENTRY_BYTES, events_key, interest_key
from radius.agent.shipping import live_feed
from radius.agent.shipping.live_feed import (
    MAX_KEPT_ENTRIES,
    MAX_WAITING,
    MAX_WAITING_BYTES,
    MIN_KEPT_ENTRIES,
    LiveFeed,
    LiveItem,
)
from radius.agent.shipping.streams import AuthStream
from tests.events.conftest import feed_of
from tests.redis_server import RedisServer

DEAD_URL = "unix:///nonexistent/redis.sock"
# The number of slots of the largest cell.
MOST_SLOTS = 400


def test_queue_is_bounded_and_counts_dropped_events(alpha):
    feed = feed_of(DEAD_URL, alpha)
    feed.wanted = frozenset([str(alpha.id)])
    stream = AuthStream(feed)
    payload = bytes(MAX_WAITING_BYTES // 100)
    for _ in range(3):
        work = stream.begin(frozenset([str(alpha.id)]))
        for number in range(MAX_WAITING):
            work.live.note(number, str(alpha.id), payload, cleaned=False)
        work.live.take_numbers(NumberedCursor())
        feed.offer(work.live.items, work.live.noted)
        assert len(feed._waiting) <= 100
        assert feed._waiting.size <= MAX_WAITING_BYTES
    assert feed.counters["left_out"] + len(feed._waiting) == 3 * MAX_WAITING
    assert [each.number for each in feed._waiting][-1] == 3 * MAX_WAITING - 1


def test_busy_tenant_displaces_no_event_of_another(alpha, bravo):
    noisy, quiet = str(alpha.id), str(bravo.id)
    feed = feed_of(DEAD_URL, alpha, bravo)
    feed.wanted = frozenset([noisy, quiet])
    stream = AuthStream(feed)
    for batch in range(3):
        work = stream.begin(frozenset([noisy, quiet]))
        # The event of the quiet tenant is the oldest event of each batch.
        work.live.note(0, quiet, b"q", cleaned=False)
        for number in range(2 * MAX_WAITING):
            work.live.note(1 + number, noisy, b"n", cleaned=False)
        numbers = work.live.take_numbers(NumberedCursor())
        assert (0 in numbers, len(numbers)) == (True, MAX_WAITING)
        feed.offer(work.live.items, work.live.noted)
        assert len(feed._waiting) == MAX_WAITING
        assert feed.counters["left_out"] == (batch + 1) * (2 * MAX_WAITING + 1) - MAX_WAITING
    waiting = [each for each in feed._waiting if each.item.tenant_id == noisy]
    assert [each.number for each in feed._waiting if each.item.tenant_id == quiet] == [0, 1, 2]
    # Listeners get the number of their next event, and the queue sends for each tenant in turn.
    assert (feed._next_number(quiet), feed._next_number(noisy)) == (0, waiting[0].number)
    assert [each.item.tenant_id == quiet for each in feed._waiting.take(8)].count(True) == 3
    assert feed._next_number(quiet) == 3


class NumberedCursor:
    def execute(self, statement, given):
        self.count = given[1]
        return self

    def fetchone(self):
        return (list(range(self.count)),)


@pytest.fixture
def server():
    server = RedisServer()
    server.start()
    yield server
    server.remove()


def build_event(tenant):
    return feed_events.build_feed_tested("x", now=utc_now(), tenant=tenant)


@pytest.mark.parametrize(("listened", "kept"), [(3, MAX_ENTRIES), (120, 26), (MOST_SLOTS, MIN_KEPT_ENTRIES)])
def test_each_of_many_tenants_gets_its_events(server, listened, kept, monkeypatch):
    monkeypatch.setattr(live_feed, "LISTENER_POLL_SECONDS", 3_600.0)
    slugs = {str(UUID(int=number)): f"t{number}" for number in range(MOST_SLOTS)}
    wanted = list(slugs)[:listened]
    feed = LiveFeed(server.url, lambda: slugs, cell="cell-1")
    with redis.Redis.from_url(server.url) as client:
        for tenant_id in wanted:
            client.set(interest_key(tenant_id), "1")
        feed._ask(time.monotonic())
        assert feed.wanted == frozenset(wanted)
        for _ in range(kept + 5):
            feed.offer([LiveItem(tenant_id, 100, build_event) for tenant_id in wanted[-2:]])
            feed._step()
            feed._credit = live_feed.BURST_EVENTS
        assert [client.xlen(events_key(tenant_id)) for tenant_id in wanted[-2:]] == [kept, kept]
        assert all(client.xlen(events_key(tenant_id)) for tenant_id in wanted)
    assert kept * listened <= MAX_KEPT_ENTRIES
    assert MAX_KEPT_ENTRIES * MAX_ENTRY_BYTES <= 100 << 20
    assert feed.counters["left_out"] == 0
