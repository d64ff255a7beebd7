"""The queue for listeners is limited, and shared fairly among tenants."""

import pytest

from radius.agent.shipping.live_feed import MAX_WAITING, MAX_WAITING_BYTES, LiveFeed
from radius.agent.shipping.streams import AuthStream


@pytest.fixture
def bravo(make):
    return make("bravo")


def feed_of(*tenants):
    """A queue that is never sent to Redis."""
    slugs = {str(tenant.id): name for tenant, name in zip(tenants, ("alpha", "bravo"), strict=False)}
    return LiveFeed("unix:///nonexistent/redis.sock", lambda: slugs, cell="cell-1")


def test_queue_is_bounded_and_counts_dropped_events(alpha):
    feed = feed_of(alpha)
    feed.wanted = frozenset([str(alpha.id)])
    stream = AuthStream(feed)
    payload = bytes(MAX_WAITING_BYTES // 100)
    for _ in range(3):
        work = stream.begin(frozenset([str(alpha.id)]))
        for number in range(MAX_WAITING):
            work.live.note(number, str(alpha.id), payload, cleaned=False)
        work.live.take_numbers(NumberedCursor())
        feed.offer(work.live.told, work.live.noted)
        assert len(feed._waiting) <= 100
        assert feed._waiting.size <= MAX_WAITING_BYTES
    assert feed.counters["left_out"] + len(feed._waiting) == 3 * MAX_WAITING
    assert [each.number for each in feed._waiting][-1] == 3 * MAX_WAITING - 1


def test_busy_tenant_displaces_no_event_of_another(alpha, bravo):
    noisy, quiet = str(alpha.id), str(bravo.id)
    feed = feed_of(alpha, bravo)
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
        feed.offer(work.live.told, work.live.noted)
        assert len(feed._waiting) == MAX_WAITING
        assert feed.counters["left_out"] == (batch + 1) * (2 * MAX_WAITING + 1) - MAX_WAITING
    waiting = [each for each in feed._waiting if each.told.tenant_id == noisy]
    assert [each.number for each in feed._waiting if each.told.tenant_id == quiet] == [0, 1, 2]
    # Listeners get the number of their next event, and the queue sends for each tenant in turn.
    assert (feed._next_number(quiet), feed._next_number(noisy)) == (0, waiting[0].number)
    assert [each.told.tenant_id == quiet for each in feed._waiting.take(8)].count(True) == 3
    assert feed._next_number(quiet) == 3


class NumberedCursor:
    def execute(self, statement, given):
        self.count = given[1]
        return self

    def fetchone(self):
        return (list(range(self.count)),)
