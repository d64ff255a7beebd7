import calendar
import time

import pytest

from nac.cellformat.journal.records import AccountingRecord
from radius.agent.accounting_parser import parse_accounting, parse_event_timestamp, shorten_key

SECOND = 1_000_000
AT = 1_800_000_000 * SECOND
EVENT = "Event-Timestamp"
DELAY = "Acct-Delay-Time"


def read(source="203.0.113.5", **attributes):
    pairs = tuple((name.replace("_", "-"), value) for name, value in attributes.items())
    return parse_accounting(AccountingRecord(AT, 1, "t", "", "", source, pairs))


def date(epoch):
    return time.strftime("%b %e %Y %H:%M:%S UTC", time.gmtime(epoch))


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        ("0", "", 0),
        ("4294967295", "", 4294967295),
        ("4294967296", "", None),
        ("5", "0", 5),
        ("5", "1", (1 << 32) + 5),
        ("", "1", 1 << 32),
        ("4294967295", "4294967295", 2**63 - 1),
        ("", "", None),
        ("-1", "", None),
        ("twelve", "", None),
        ("٣", "", None),
        ("5", "none", 5),
    ],
)
def test_octets_are_combined_from_two_counters(low, high, expected):
    usage = read(Acct_Input_Octets=low, Acct_Input_Gigawords=high)
    assert usage.input_octets == expected


@pytest.mark.parametrize(
    ("delay", "event", "age_seconds"),
    [
        # The delay does not depend on the NAS's clock, so it has precedence.
        ("5", None, 5),
        ("5", 100, 5),
        ("86400", None, 86_400),
        # A larger delay is an invalid counter.
        ("86401", None, 0),
        ("4294967295", 100, 100),
        ("-1", None, 0),
        # A delay of zero means that the event happens now.
        ("0", 100, 0),
        (None, 100, 100),
        (None, 86_400, 86_400),
        (None, 86_401, 0),
        # No event is later than its arrival.
        (None, -300, 0),
        (None, -301, 0),
        (None, None, 0),
    ],
)
def test_event_time_is_accepted_within_limits(delay, event, age_seconds):
    attributes = {} if delay is None else {DELAY: delay}
    if event is not None:
        attributes[EVENT] = date(AT // SECOND - event)
    assert read(**attributes).event_at == AT - age_seconds * SECOND


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Nov 21 2026 03:01:02 UTC", calendar.timegm((2026, 11, 21, 3, 1, 2))),
        ("Nov  1 2026 03:01:02 GMT", calendar.timegm((2026, 11, 1, 3, 1, 2))),
        ("1800000000", 1_800_000_000),
        ("Nov 21 2026 03:01:02 XYZ", None),
        ("Foo 21 2026 03:01:02 UTC", None),
        ("Nov xx 2026 03:01:02 UTC", None),
        ("Nov 21 2026 03:01 UTC", None),
        ("", None),
        ("18000000000000000000000", None),
    ],
)
def test_date_is_parsed_as_radiusd_prints_it(text, expected):
    assert parse_event_timestamp(text) == expected


def test_date_in_the_machines_time_zone_is_parsed_too(monkeypatch):
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    parse_event_timestamp.cache_clear()
    try:
        assert parse_event_timestamp("Nov 21 2026 03:01:02 CET") == calendar.timegm((2026, 11, 21, 2, 1, 2))
    finally:
        monkeypatch.delenv("TZ")
        time.tzset()
        parse_event_timestamp.cache_clear()


def test_nas_is_identified_by_attributes_not_by_source():
    behind_nat = {"NAS-Identifier": "sw", "NAS-IP-Address": "10.0.0.1"}
    assert read(source="203.0.113.5", **behind_nat).nas_key == read(source="203.0.113.9", **behind_nat).nas_key
    assert read(**behind_nat).nas_key != read(**(behind_nat | {"NAS-IP-Address": "10.0.0.2"})).nas_key
    assert read(source="203.0.113.5").nas_key == "203.0.113.5"


@pytest.mark.parametrize(
    ("station", "mac", "key"),
    [
        ("AA-BB-CC-DD-EE-FF", "aabbccddeeff", "aabbccddeeff"),
        ("aabb.ccdd.eeff", "aabbccddeeff", "aabbccddeeff"),
        ("198.51.100.7", "", "198.51.100.7"),
        ("", "", ""),
        ("x" * 253, "", "x" * 253),
    ],
)
def test_station_is_its_mac_address_if_it_has_one(station, mac, key):
    usage = read(Calling_Station_Id=station)
    assert (usage.mac, usage.mac_key) == (mac, key)


def test_name_and_port_identify_sessions_without_ids():
    anna = read(User_Name="anna", NAS_Port="7")
    assert anna.mac_key == "anna|7"
    assert len({anna.mac_key, read(User_Name="otto", NAS_Port="7").mac_key, read(User_Name="anna").mac_key}) == 3
    for told in ({"Calling_Station_Id": "AA-BB-CC-DD-EE-FF"}, {"Acct_Session_Id": "s1"}):
        assert read(User_Name="anna", **told).mac_key == read(User_Name="otto", **told).mac_key
    assert len(read(User_Name="x" * 253, NAS_Port_Id="y" * 253).mac_key) == 253


@pytest.mark.parametrize(
    ("address", "expected"),
    [("198.51.100.7", "198.51.100.7"), ("2001:db8::7", "2001:db8::7"), ("fe80::1%eth0", "fe80::1"), ("none", "")],
)
def test_address_invalid_for_postgresql_is_omitted(address, expected):
    assert read(Framed_IP_Address=address).framed_ip == expected
    assert read(source=address).nas_address == expected


def test_texts_longer_than_a_key_stay_distinct():
    """`radiusd` prints an invalid octet as three characters, so 253 octets become 759 characters."""
    long = [shorten_key("=FF" * 252 + last) for last in ("=00", "=01")]
    assert {len(key) for key in long} == {253}
    assert long[0] != long[1]


@pytest.mark.parametrize(
    ("attributes", "faults"),
    [
        ({"Acct_Delay_Time": "4294967295"}, ("impossible-time",)),
        ({"Event_Timestamp": "Jan  1 1970 00:00:00 UTC"}, ("impossible-time",)),
        ({"Event_Timestamp": "Feb  7 2106 06:28:15 UTC"}, ("impossible-time",)),
        # The delay is valid, so Admit ignores the NAS's clock.
        ({"Event_Timestamp": "Jan  1 1970 00:00:00 UTC", "Acct_Delay_Time": "0"}, ()),
        ({"Acct_Session_Time": "4294967295"}, ("impossible-time",)),
        ({"Acct_Session_Id": ""}, ("session-id-missing",)),
        ({}, ()),
    ],
)
def test_impossible_value_is_ignored_and_flagged(attributes, faults):
    usage = read(**({"Acct_Session_Id": "s1"} | attributes))
    assert (usage.event_at, usage.session_seconds, usage.faults) == (AT, None, faults)


def test_first_of_several_session_ids_counts():
    pairs = tuple(("Acct-Session-Id", f"{number:02}" + "x" * 251) for number in range(16))
    usage = parse_accounting(AccountingRecord(AT, 1, "t", "", "", "192.0.2.1", pairs))
    assert (usage.session_id, usage.faults) == ("00" + "x" * 251, ("session-id-repeated",))
