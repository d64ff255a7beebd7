"""The alarm about packets beyond a tenant's limit."""

from radius.agent.alarms import Alarms
from radius.agent.packet_limit import STANDS_SECONDS, PacketLimit


def codes(alarms):
    return [alarm.code for alarm in alarms.standing()]


def test_dropped_packets_raise_an_alarm_that_ends():
    alarms, now = Alarms(), [0.0]
    limit = PacketLimit(alarms, 4_000, lambda: now[0])
    limit.look({"auth_dropped": 0, "acct_dropped": 0})
    assert codes(alarms) == []
    limit.look({"auth_dropped": 7, "auth_duplicates": 2, "acct_dropped": 1})
    [alarm] = alarms.standing()
    assert alarm.code == "packets-over-limit"
    assert "6 packets" in alarm.detail
    assert "4000 a second" in alarm.detail
    now[0] = STANDS_SECONDS - 1
    limit.look({"auth_dropped": 7, "auth_duplicates": 2, "acct_dropped": 1})
    assert codes(alarms) == ["packets-over-limit"]
    now[0] = STANDS_SECONDS
    limit.look({"auth_dropped": 7, "auth_duplicates": 2, "acct_dropped": 1})
    assert codes(alarms) == []


def test_repeated_packets_and_a_new_radiusd_raise_none():
    alarms = Alarms()
    limit = PacketLimit(alarms, 4_000)
    limit.look({"auth_dropped": 5, "auth_duplicates": 5})
    limit.look({"auth_dropped": 0})
    assert codes(alarms) == []


def test_without_a_limit_there_is_no_alarm():
    alarms = Alarms()
    PacketLimit(alarms, 0).look({"auth_dropped": 5})
    assert codes(alarms) == []
