"""The agent replaces a radiusd above its memory limit once, and service continues."""

import pytest

from radius.agent.alarms import Alarms
from radius.agent.radiusd import process
from radius.agent.radiusd.memory import get_process_memory
from radius.agent.radiusd.memory_watch import ABOVE_LIMIT_SECONDS, MIN_EXCHANGE_INTERVAL_SECONDS, MemoryWatch
from radius.agent.radiusd.probe import is_serving
from tests.polling import until


@pytest.fixture
def watch(radiusd, clock):
    """Create a watch whose limit is this fraction of radiusd's memory."""

    def make(share):
        held = get_process_memory(radiusd.running.pid).anonymous_bytes
        alarms = Alarms()
        made = MemoryWatch(radiusd, alarms, limit_bytes=int(held * share), is_quiet=lambda _: True, clock=clock)
        made.look()
        return made, lambda: {alarm.code for alarm in alarms.standing()}

    return make


def test_memory_is_reported_and_an_alarm_precedes_the_limit(radiusd, watch):
    calm, codes = watch(2)
    told = calm.document()
    assert 0 < told["anonymous_bytes"] < told["rss_bytes"]
    assert 0 < told["pss_bytes"] <= told["rss_bytes"]
    assert codes() == set()
    _, codes = watch(1.3)
    assert codes() == {"memory-high"}
    assert radiusd.renewals == 0


def test_radiusd_above_the_limit_is_replaced_once(radiusd, watch, clock):
    old = radiusd.running
    hard, codes = watch(0.5)
    clock.now = ABOVE_LIMIT_SECONDS - 0.1
    hard.look()
    assert radiusd.running is old
    clock.now = ABOVE_LIMIT_SECONDS
    hard.look()
    assert radiusd.running.pid != old.pid
    assert process.is_alive(radiusd.running)
    # The replaced radiusd answers the requests that it has received, then exits.
    until(lambda: radiusd.tick() or not process.is_alive(old), "its end")
    assert radiusd.renewals == 1
    assert codes() == {"memory-high", "memory-exchange"}
    status = radiusd.generation.facts.status
    assert is_serving("127.0.0.1", status.port, status.secret, seconds=5)
    # The new radiusd uses as much memory, so the limit is too low. The agent does not replace it again.
    for clock.now in (
        ABOVE_LIMIT_SECONDS + 1,
        2 * ABOVE_LIMIT_SECONDS + 2,
        ABOVE_LIMIT_SECONDS + MIN_EXCHANGE_INTERVAL_SECONDS - 1,
    ):
        hard.look()
    assert radiusd.renewals == 1
    clock.now = ABOVE_LIMIT_SECONDS + MIN_EXCHANGE_INTERVAL_SECONDS
    hard.look()
    assert radiusd.renewals == 2


def test_short_peak_replaces_nothing(radiusd, watch, clock):
    hard, codes = watch(0.5)
    clock.now = ABOVE_LIMIT_SECONDS - 1
    hard._limit *= 4
    hard.look()
    assert codes() == set()
    hard._limit //= 4
    for clock.now in (ABOVE_LIMIT_SECONDS, 2 * ABOVE_LIMIT_SECONDS - 1):
        hard.look()
    assert radiusd.renewals == 0


def test_exited_radiusd_is_ignored(radiusd, watch, clock):
    hard, _ = watch(0.5)
    radiusd.stop()
    clock.now = 2 * ABOVE_LIMIT_SECONDS
    hard.look()
    assert hard.document()["rss_bytes"] == 0
    assert radiusd.renewals == 0
