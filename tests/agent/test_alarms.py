"""Duration and limit of alarms, and alarms about dropped packets and waiting endpoints."""

import pytest

from radius.agent import tenant_alarms
from radius.agent.alarms import EVENT_ALARM_SECONDS, MAX_ACTIVE_ALARMS, Alarms
from radius.agent.radiusd.packet_limit import ALARM_SECONDS, MIN_DROPPED, MINUTE_SECONDS, PacketLimitWatch
from radius.agent.tenant_alarms import ALARM_AFTER_SECONDS, EndpointBacklog


@pytest.fixture
def alarms(clock):
    return Alarms(clock)


def codes(alarms):
    return {alarm.code for alarm in alarms.standing()}


def test_state_alarm_lasts_until_cleared_event_alarm_a_day(alarms, clock):
    alarms.report("disk-low", "little room")
    alarms.report_event("journal-cut-auth", "5 bytes are lost")
    clock.now += EVENT_ALARM_SECONDS - 1
    assert codes(alarms) == {"disk-low", "journal-cut-auth"}
    clock.now += 1
    assert codes(alarms) == {"disk-low"}
    alarms.clear("disk-low")
    assert codes(alarms) == set()


def test_repeated_event_is_extended_and_keeps_its_start(alarms, clock):
    alarms.report_event("stray-auth", "1 record")
    (first,) = alarms.standing()
    clock.now += EVENT_ALARM_SECONDS - 1
    alarms.report_event("stray-auth", "2 records")
    clock.now += EVENT_ALARM_SECONDS - 1
    (again,) = alarms.standing()
    assert (again.since, again.detail) == (first.since, "2 records")
    clock.now += 1
    assert alarms.standing() == []


def test_age_counts_from_the_last_report(alarms, clock):
    alarms.report("journal-refused", "full")
    clock.now += 3
    alarms.report("journal-refused", "full")
    clock.now += 2
    assert alarms.age_seconds("journal-refused") == 2
    assert alarms.age_seconds("another") == 0


def test_too_many_alarms_are_summarized_in_one(alarms):
    for number in range(MAX_ACTIVE_ALARMS + 50):
        alarms.report_row(f"user-unsealed-{number}", "cannot use CHAP", tenant=7)
    alarms.report_row("user-unsealed-0", "still cannot", tenant=7)
    standing = alarms.standing()
    assert len(standing) == MAX_ACTIVE_ALARMS + 1
    assert (standing[0].detail, standing[-1].code) == ("still cannot", "more-alarms")
    alarms.report("disk-low", "little room")
    assert "disk-low" in codes(alarms)
    for number in range(2):
        alarms.clear(f"user-unsealed-{number}")
    assert "more-alarms" not in codes(alarms)


def watch_packets(alarms, clock, limit=4_000):
    return PacketLimitWatch(alarms, limit, clock)


def test_dropped_packets_raise_an_alarm_that_clears(alarms, clock):
    watch = watch_packets(alarms, clock)
    watch.look({"auth_dropped": 0, "acct_dropped": 0})
    assert codes(alarms) == set()
    dropped = {"auth_dropped": 9_000, "auth_duplicates": 500, "acct_dropped": 1_500}
    watch.look(dropped)
    [alarm] = alarms.standing()
    assert alarm.code == "packets-over-limit"
    assert "10000 packets" in alarm.detail
    assert "4000 packets a second" in alarm.detail
    for clock.now, expected in ((ALARM_SECONDS - 1, {"packets-over-limit"}), (ALARM_SECONDS, set())):
        watch.look(dropped)
        assert codes(alarms) == expected


def test_few_dropped_packets_per_minute_raise_no_alarm(alarms, clock):
    watch = watch_packets(alarms, clock)
    for minute in range(10):
        clock.now = minute * MINUTE_SECONDS
        watch.look({"auth_dropped": (minute + 1) * (MIN_DROPPED - 1)})
    assert codes(alarms) == set()


def test_repeated_packets_and_a_new_radiusd_raise_no_alarm(alarms, clock):
    watch = watch_packets(alarms, clock)
    watch.look({"auth_dropped": 50_000, "auth_duplicates": 50_000})
    watch.look({"auth_dropped": 0})
    assert codes(alarms) == set()


def test_without_a_limit_no_dropped_packet_is_an_alarm(alarms, clock):
    watch_packets(alarms, clock, limit=0).look({"auth_dropped": 50_000})
    assert codes(alarms) == set()


@pytest.fixture
def backlog(platform, cell_engine, alarms, clock):
    return EndpointBacklog(cell_engine, platform.cell_id, alarms, clock)


def alarm_texts(alarms):
    return [alarm.detail for alarm in alarms.standing()]


def wait(owner, tenant):
    owner.execute("INSERT INTO endpoint_work (tenant_id, mac) VALUES (%s, '001ba9010203')", (tenant.id,))


def test_endpoint_work_that_stays_is_an_alarm_until_done(owner, alpha, backlog, alarms, clock):
    wait(owner, alpha)
    backlog.look()
    clock.now += ALARM_AFTER_SECONDS - 1
    backlog.look()
    assert (backlog.count, alarm_texts(alarms)) == (1, [])
    clock.now += 1
    backlog.look()
    assert "1 changes wait, the first for 60 s" in alarm_texts(alarms)[0]
    owner.execute("DELETE FROM endpoint_work")
    backlog.look()
    assert (backlog.count, alarm_texts(alarms)) == (0, [])


def test_endpoint_work_in_progress_is_no_alarm(owner, alpha, backlog, alarms, clock):
    for _ in range(3):
        wait(owner, alpha)
        backlog.look()
        clock.now += ALARM_AFTER_SECONDS - 1
        owner.execute("DELETE FROM endpoint_work")
    assert alarm_texts(alarms) == []


def test_endpoint_work_over_the_limit_is_an_alarm_at_once(owner, alpha, backlog, alarms, monkeypatch):
    monkeypatch.setattr(tenant_alarms, "MAX_COUNTED", 2)
    for _ in range(3):
        wait(owner, alpha)
    backlog.look()
    assert "2 or more changes wait" in alarm_texts(alarms)[0]
