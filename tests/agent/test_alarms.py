"""Alarms of states last until cleared, alarms of events last a day. The number of alarms is limited."""

import pytest

from radius.agent.alarms import EVENT_ALARM_SECONDS, MAX_ACTIVE_ALARMS, Alarms


@pytest.fixture
def alarms(clock):
    return Alarms(clock)


def codes(alarms):
    return {alarm.code for alarm in alarms.standing()}


def test_state_alarm_lasts_until_cleared_event_alarm_a_day(alarms, clock):
    alarms.tell("disk-low", "little room")
    alarms.tell_event("journal-cut-auth", "5 bytes are lost")
    clock.now += EVENT_ALARM_SECONDS - 1
    assert codes(alarms) == {"disk-low", "journal-cut-auth"}
    clock.now += 1
    assert codes(alarms) == {"disk-low"}
    alarms.clear("disk-low")
    assert codes(alarms) == set()


def test_repeated_event_is_extended_and_keeps_its_start(alarms, clock):
    alarms.tell_event("stray-auth", "1 record")
    (first,) = alarms.standing()
    clock.now += EVENT_ALARM_SECONDS - 1
    alarms.tell_event("stray-auth", "2 records")
    clock.now += EVENT_ALARM_SECONDS - 1
    (again,) = alarms.standing()
    assert (again.since, again.detail) == (first.since, "2 records")
    clock.now += 1
    assert alarms.standing() == []


def test_age_counts_from_the_last_report(alarms, clock):
    alarms.tell("journal-refused", "full")
    clock.now += 3
    alarms.tell("journal-refused", "full")
    clock.now += 2
    assert alarms.age_seconds("journal-refused") == 2
    assert alarms.age_seconds("another") == 0


def test_too_many_alarms_are_summarized_in_one(alarms):
    for number in range(MAX_ACTIVE_ALARMS + 50):
        alarms.tell_of_row(f"user-unsealed-{number}", "cannot use CHAP", tenant=7)
    alarms.tell_of_row("user-unsealed-0", "still cannot", tenant=7)
    standing = alarms.standing()
    assert len(standing) == MAX_ACTIVE_ALARMS + 1
    assert (standing[0].detail, standing[-1].code) == ("still cannot", "more-alarms")
    alarms.tell("disk-low", "little room")
    assert "disk-low" in codes(alarms)
    for number in range(2):
        alarms.clear(f"user-unsealed-{number}")
    assert "more-alarms" not in codes(alarms)
