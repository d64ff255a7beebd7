"""Time windows in rules: their limits, their weekday, and daylight saving changes."""

from datetime import datetime
from zoneinfo import ZoneInfo

import pytest

from nac.engine import PolicyRequest, compile_policy, decide
from tests.engine.builders import compare, mistakes, policy_of, rule

BERLIN = "Europe/Berlin"


def is_within(window, moment, zone=BERLIN):
    """Whether `moment` is in the window. It is a local time, or UTC if it has a Z."""
    told = datetime.fromisoformat(moment)
    at = int((told if told.tzinfo else told.replace(tzinfo=ZoneInfo(zone))).timestamp())
    policy = compile_policy(policy_of(rule("r", compare("time", "within", window))), time_zone=zone)
    return decide(policy, PolicyRequest({}, at)).permitted


# 2026-01-05 is a Monday.
@pytest.mark.parametrize(
    ("window", "inside", "outside"),
    [
        (
            {"from": "08:00", "to": "18:00"},
            ["2026-01-05T08:00:00", "2026-01-05T17:59:59"],
            ["2026-01-05T07:59:59", "2026-01-05T18:00:00"],
        ),
        ({"from": "08:00"}, ["2026-01-05T08:00", "2026-01-05T23:59:59"], ["2026-01-05T07:59:59", "2026-01-05T00:00"]),
        ({"to": "08:00"}, ["2026-01-05T00:00", "2026-01-05T07:59:59"], ["2026-01-05T08:00", "2026-01-04T23:59:59"]),
        ({"from": "08:00", "to": "24:00"}, ["2026-01-05T23:59:59"], ["2026-01-06T00:00"]),
        (
            {"from": "22:00", "to": "00:00"},
            ["2026-01-05T22:00", "2026-01-05T23:59:59"],
            ["2026-01-06T00:00", "2026-01-05T21:59:59"],
        ),
        (
            {"days": ["mon", "fri"]},
            ["2026-01-05T00:00", "2026-01-09T23:59:59"],
            ["2026-01-04T23:59:59", "2026-01-06T00:00"],
        ),
        ({"days": ["sun"]}, ["2026-01-04T12:00"], ["2026-01-03T12:00", "2026-01-05T12:00"]),
        # A window over midnight belongs to the day of its start.
        (
            {"days": ["fri"], "from": "22:00", "to": "06:00"},
            ["2026-01-09T22:00", "2026-01-10T05:59:59"],
            ["2026-01-09T21:59:59", "2026-01-10T06:00", "2026-01-10T22:00", "2026-01-09T05:00"],
        ),
        (
            {"from": "22:00", "to": "06:00", "dates": {"from": "2026-12-24", "to": "2026-12-24"}},
            ["2026-12-24T22:00", "2026-12-25T05:59:59"],
            ["2026-12-24T05:00", "2026-12-25T22:00"],
        ),
        (
            {"dates": {"from": "2026-12-24", "to": "2027-01-02"}},
            ["2026-12-24T00:00", "2027-01-02T23:59:59"],
            ["2026-12-23T23:59:59", "2027-01-03T00:00"],
        ),
        ({"dates": {"to": "2026-12-24"}}, ["1999-01-01T00:00"], ["2026-12-25T00:00"]),
        ({"dates": {"from": "2026-12-24"}}, ["2999-01-01T00:00"], ["2026-12-23T23:59:59"]),
        (
            {"days": ["mon"], "from": "08:00", "to": "18:00", "dates": {"from": "2026-01-06"}},
            ["2026-01-12T08:00"],
            ["2026-01-05T08:00", "2026-01-12T18:00", "2026-01-13T08:00"],
        ),
    ],
)
def test_window_holds_only_within_its_limits(window, inside, outside):
    assert [moment for moment in inside if not is_within(window, moment)] == []
    assert [moment for moment in outside if is_within(window, moment)] == []


def test_site_time_zone_applies():
    at_eight = {"from": "08:00", "to": "09:00"}
    assert is_within(at_eight, "2026-01-05T07:30+00:00", BERLIN)
    assert not is_within(at_eight, "2026-01-05T07:30+00:00", "UTC")
    assert is_within(at_eight, "2026-07-06T06:30+00:00", BERLIN)
    assert is_within(at_eight, "2026-01-05T02:20+00:00", "Asia/Kathmandu")
    assert is_within({"days": ["mon"]}, "2026-01-04T18:15+00:00", "Asia/Kathmandu")
    assert not is_within({"days": ["mon"]}, "2026-01-04T18:14:59+00:00", "Asia/Kathmandu")


def test_skipped_hour_in_spring_never_matches():
    """In Berlin on 2026-03-29, the clock shows 03:00 after 01:59:59 (00:59:59 UTC)."""
    skipped = {"from": "02:15", "to": "02:45"}
    night = range(int(datetime.fromisoformat("2026-03-28T23:00+00:00").timestamp()), 0, 60)
    policy = compile_policy(policy_of(rule("r", compare("time", "within", skipped))), time_zone=BERLIN)
    assert not any(decide(policy, PolicyRequest({}, night.start + minute * 60)).permitted for minute in range(240))
    assert is_within({"from": "01:00", "to": "02:30"}, "2026-03-29T00:59:59+00:00")
    assert not is_within({"from": "01:00", "to": "02:30"}, "2026-03-29T01:00+00:00")
    assert is_within({"from": "02:30", "to": "04:00"}, "2026-03-29T01:00+00:00")


def test_repeated_hour_in_autumn_matches_twice():
    """In Berlin on 2026-10-25, 02:00 to 03:00 occurs twice: from 00:00 to 01:00 UTC, and from 01:00 to 02:00 UTC."""
    repeated = {"from": "02:15", "to": "02:45"}
    for moment in ("00:15", "00:44", "01:15", "01:44"):
        assert is_within(repeated, f"2026-10-25T{moment}+00:00")
    for moment in ("00:14", "00:45", "01:14", "01:45"):
        assert not is_within(repeated, f"2026-10-25T{moment}+00:00")


def test_window_over_midnight_spans_a_clock_change():
    shift = {"days": ["sat"], "from": "22:00", "to": "06:00"}
    assert is_within(shift, "2026-03-29T03:59:59+00:00")
    assert not is_within(shift, "2026-03-29T04:00+00:00")
    assert is_within(shift, "2026-10-25T04:59:59+00:00")
    assert not is_within(shift, "2026-10-25T05:00+00:00")


def test_moment_outside_the_calendar_is_in_no_window():
    policy = compile_policy(policy_of(rule("r", compare("time", "within", {"from": "00:00"}))), time_zone=BERLIN)
    for at in (2**40, -(2**40), 2**80, -(2**80)):
        assert not decide(policy, PolicyRequest({}, at)).permitted


def test_trace_shows_the_local_time():
    policy = compile_policy(policy_of(rule("r", compare("time", "within", {"days": ["sat"]}))), time_zone=BERLIN)
    (cause,) = decide(policy, PolicyRequest({}, 1767600000), trace=True).trace[0].because
    assert cause.seen == ("mon 2026-01-05 09:00:00",)
    assert cause.value == {"days": ["sat"]}


def test_request_cannot_set_the_time():
    policy = compile_policy(policy_of(rule("r", compare("time", "within", {"days": ["sat"]}))))
    assert not decide(policy, PolicyRequest({"time": (1767441600,)}, 1767600000)).permitted


@pytest.mark.parametrize(
    ("window", "words"),
    [
        ({}, ["at least one"]),
        ([], ["must be an object"]),
        ({"day": ["mon"]}, ["unknown key 'day'"]),
        ({"days": []}, ['"days"']),
        ({"days": ["monday"]}, ["mon, tue"]),
        ({"from": "8:00"}, ['"from"', "00:00"]),
        ({"from": "24:00"}, ['"from"', "23:59"]),
        ({"to": "24:01"}, ['"to"', "24:00"]),
        ({"to": "\uff11\uff18:00"}, ['"to"']),
        ({"from": "08:00", "to": "08:00"}, ["are equal"]),
        ({"dates": {}}, ['"dates"']),
        ({"dates": {"from": "2026-02-30"}}, ["'2026-02-30' is not a date"]),
        ({"dates": {"from": "20260201"}}, ["not a date"]),
        ({"dates": {"from": "2026-02-02", "to": "2026-02-01"}}, ['is before "from"']),
        # One result lists all errors.
        (
            {"days": ["x"], "from": "25:00", "to": "26:00", "dates": {"to": "x"}},
            ['"days"', '"from"', '"to"', "not a date"],
        ),
    ],
)
def test_invalid_window_is_rejected_with_a_remedy(window, words):
    found = mistakes(policy_of(rule("r", compare("time", "within", window))))
    assert list(found) == ["rules[0].when.value"]
    assert [word for word in words if word not in found["rules[0].when.value"]] == []


@pytest.mark.parametrize("zone", ["Berlin", "Europe/Atlantis", "../etc/passwd", "", "Europe", "\0", "x" * 5000])
def test_unknown_time_zone_is_rejected(zone):
    assert list(mistakes({}, time_zone=zone)) == ["site.time_zone"]
