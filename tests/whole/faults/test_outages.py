"""Outages of PostgreSQL or Redis under load. Authentication and accounting continue without loss or duplicates."""

import time

import pytest

from cli.health import reported_at
from nac.kit.clock import epoch_seconds
from tests.polling import PATIENCE_SECONDS, until

pytestmark = pytest.mark.faults

AWAY = {
    "stopped": lambda instance, name: instance.stopped(name),
    # Connections hang instead of failing, and new connections get no response.
    "frozen": lambda instance, name: instance.frozen(name),
}
SHORT_SECONDS = 2


def serve_without(instance, work, name, how, seconds):
    """Continue the load for `seconds` without process `name`. Returns the cell's final status."""
    must_notice = name == "postgres" and (how == "frozen" or seconds > SHORT_SECONDS)
    if must_notice:
        until(lambda: instance.status()["database"], "the cell reports to PostgreSQL")
    with AWAY[how](instance, name):
        began = time.perf_counter()
        until(
            lambda: work.answers[-1] > began + seconds and work.answered_since(began) > 50 * seconds,
            f"answers without {name}",
            seconds=seconds + PATIENCE_SECONDS,
        )
        if must_notice:
            until(lambda: not instance.status()["database"], "the cell notices that PostgreSQL is away")
        status = instance.status()
        assert status["state"] == "serving"
        assert reported_at(status) >= epoch_seconds() - 5
    instance.wait_until_well()
    return status


@pytest.mark.parametrize("how", ["stopped", pytest.param("frozen", marks=pytest.mark.long)])
@pytest.mark.parametrize("seconds", [SHORT_SECONDS, pytest.param(120, marks=pytest.mark.long)])
def test_postgresql_outage_under_load_leaves_cell_unharmed(instance, load, note, how, seconds):
    standing = instance.alarm_codes()
    with load() as work:
        during = serve_without(instance, work, "postgres", how, seconds)
        returned = time.perf_counter()
    instance.wait_until_shipped()
    note(f"PostgreSQL {how} for {seconds} s: journal shipped", time.perf_counter() - returned)
    work.assert_unaffected()
    assert sum(during["journal_backlog_bytes"].values()) > 0
    assert instance.pid("radiusd") == during["radiusd_pid"]
    until(lambda: instance.alarm_codes() <= standing, "the end of all alarms")


@pytest.mark.parametrize(
    ("how", "seconds"),
    [
        ("stopped", 1),
        pytest.param("stopped", 120, marks=pytest.mark.long),
        pytest.param("frozen", 60, marks=pytest.mark.long),
    ],
)
def test_redis_outage_under_load_does_not_affect_the_cell(instance, load, how, seconds):
    with load() as work:
        during = serve_without(instance, work, "redis", how, seconds)
    work.assert_unaffected()
    assert instance.pid("radiusd") == during["radiusd_pid"]
