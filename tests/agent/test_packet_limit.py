"""The alarm about packets that exceed a tenant's rate limit."""

from radius.agent.alarms import Alarms
from radius.agent.radiusd.packet_limit import ALARM_SECONDS, MIN_DROPPED, MINUTE_SECONDS, PacketLimitWatch


def codes(alarms):
    return [alarm.code for alarm in alarms.standing()]


def test_dropped_packets_raise_an_alarm_that_clears():
    alarms, now = Alarms(), [0.0]
    limit = PacketLimitWatch(alarms, 4_000, lambda: now[0])
    limit.look({"auth_dropped": 0, "acct_dropped": 0})
    assert codes(alarms) == []
    dropped = {"auth_dropped": 9_000, "auth_duplicates": 500, "acct_dropped": 1_500}
    limit.look(dropped)
    [alarm] = alarms.standing()
    assert alarm.code == "packets-over-limit"
    assert "10000 packets" in alarm.detail
    assert "4000 packets a second" in alarm.detail
    now[0] = ALARM_SECONDS - 1
    limit.look(dropped)
    assert codes(alarms) == ["packets-over-limit"]
    now[0] = ALARM_SECONDS
    limit.look(dropped)
    assert codes(alarms) == []


def test_few_dropped_packets_per_minute_raise_no_alarm():
    alarms, now = Alarms(), [0.0]
    limit = PacketLimitWatch(alarms, 4_000, lambda: now[0])
    for minute in range(10):
        now[0] = minute * MINUTE_SECONDS
        limit.look({"auth_dropped": (minute + 1) * (MIN_DROPPED - 1)})
    assert codes(alarms) == []


def test_repeated_packets_and_a_new_radiusd_raise_no_alarm():
    alarms = Alarms()
    limit = PacketLimitWatch(alarms, 4_000)
    limit.look({"auth_dropped": 50_000, "auth_duplicates": 50_000})
    limit.look({"auth_dropped": 0})
    assert codes(alarms) == []


def test_without_a_limit_there_is_no_alarm():
    alarms = Alarms()
    PacketLimitWatch(alarms, 0).look({"auth_dropped": 50_000})
    assert codes(alarms) == []
