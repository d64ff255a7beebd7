"""Endpoints queued for the worker: the agent reports their number, and raises an alarm if it stays high."""

import pytest

from radius.agent import tenant_alarms
from radius.agent.alarms import Alarms
from radius.agent.tenant_alarms import ALARM_AFTER_SECONDS, EndpointBacklog


@pytest.fixture
def alarms():
    return Alarms()


@pytest.fixture
def watch(platform, cell_engine, alarms, clock):
    return EndpointBacklog(cell_engine, platform.cell_id, alarms, clock)


def alarm_texts(alarms):
    return [alarm.detail for alarm in alarms.standing()]


def wait(owner, tenant, mac="001ba9010203"):
    owner.execute("INSERT INTO endpoint_work (tenant_id, mac) VALUES (%s, %s)", (tenant.id, mac))


def test_work_that_stays_is_an_alarm_until_it_is_done(owner, alpha, watch, alarms, clock):
    wait(owner, alpha)
    watch.look()
    clock.now += ALARM_AFTER_SECONDS - 1
    watch.look()
    assert (watch.count, alarm_texts(alarms)) == (1, [])
    clock.now += 1
    watch.look()
    assert "1 changes wait, the first for 60 s" in alarm_texts(alarms)[0]
    owner.execute("DELETE FROM endpoint_work")
    watch.look()
    assert (watch.count, alarm_texts(alarms)) == (0, [])


def test_work_in_progress_is_no_alarm(owner, alpha, watch, alarms, clock):
    for _ in range(3):
        wait(owner, alpha)
        watch.look()
        clock.now += ALARM_AFTER_SECONDS - 1
        owner.execute("DELETE FROM endpoint_work")
    assert alarm_texts(alarms) == []


def test_work_over_the_counting_limit_is_an_alarm_at_once(owner, alpha, watch, alarms, monkeypatch):
    monkeypatch.setattr(tenant_alarms, "MAX_COUNTED", 2)
    for _ in range(3):
        wait(owner, alpha)
    watch.look()
    assert "2 or more changes wait" in alarm_texts(alarms)[0]
