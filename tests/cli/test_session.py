"""`./admit session` and `./admit usage`: how a help desk sees the network."""

import json
from datetime import timedelta

import pytest
from sqlalchemy import Engine, select
from sqlalchemy.orm import Session

from nac.kit.clock import utc_now
from nac.models import RadiusSession, Tenant
from tests.cli.conftest import Admit
from tests.factories.rows import make_row


@pytest.fixture
def there(alpha: Admit, owner_engine: Engine) -> Admit:
    start = utc_now() - timedelta(hours=1)
    nothing = (
        "site_id",
        "nas_id",
        "nas_address",
        "framed_ipv6",
        "framed_prefix",
        "delegated_prefix",
        "interim_seconds",
    )
    common = dict.fromkeys(nothing) | {
        "started_at": start,
        "usage_hour": start.replace(minute=0, second=0, microsecond=0),
        "nas_key": "switch-1|192.0.2.7",
        "settled_seconds": 0,
        "settled_input": 0,
        "settled_output": 0,
        "class": "",
        "cui": "",
    }
    live = {"mac": "02a0c0000001", "identity": "Ann\x1b[2J", "framed_ip": "192.0.2.9", "stopped_at": None}
    counters = {"session_seconds": 600, "input_octets": 5 << 32, "output_octets": 7}
    ended = {"mac": "02a0c0000002", "identity": "otto", "framed_ip": None, "stopped_at": start + timedelta(minutes=5)}
    with Session(owner_engine) as session, session.begin():
        tenant_id = session.scalars(select(Tenant.id)).one()
        for values in (live | counters, ended | counters | {"terminate_cause": "User-Request", "flags": ["no-start"]}):
            columns = {column.name for column in RadiusSession.__table__.columns if column.computed is None}
            row = {name: value for name, value in (common | values).items() if name in columns}
            make_row(session, RadiusSession.__table__, tenant_id, **row)
    return alpha


def test_live_sessions_are_listed_and_ended_ones_with_all(there: Admit) -> None:
    (live,) = there.json("session", "list", "-t", "alpha")
    assert (live["mac"], live["nas"], live["address"], live["stop"]) == (
        "02:a0:c0:00:00:01",
        "switch-1",
        "192.0.2.9",
        None,
    )
    assert (live["input_octets"], live["output_octets"]) == (5 << 32, 7)
    assert 3_600 <= live["seconds"] < 3_700
    both = there.json("session", "list", "-t", "alpha", "--all")
    assert [(row["user"], row["cause"], row["flags"]) for row in both[1:]] == [("otto", "User-Request", ["no-start"])]
    assert both[1]["seconds"] == 600


@pytest.mark.parametrize(
    ("options", "count"),
    [
        (("--mac", "02A0.C000.0001"), 1),
        (("--user", "OTTO"), 1),
        (("--address", "192.0.2.9"), 1),
        (("--address", "192.0.2.0/24"), 1),
        (("--address", "2001:db8::/32"), 0),
        # The device is not registered.
        (("--nas", "switch-1"), 2),
        (("--nas", "switch-1", "--limit", "1"), 1),
        (("--since", "10m"), 1),
        (("--until", "2h"), 0),
        (("--session-id", "none"), 0),
        (("--chargeable-user", "none"), 0),
        (("--limit", "1"), 1),
    ],
)
def test_options_filter_the_list(there: Admit, options: tuple[str, ...], count: int) -> None:
    assert len(there.json("session", "list", "-t", "alpha", "--all", *options)) == count


def test_device_values_cannot_control_the_terminal(there: Admit) -> None:
    shown = there.run("session", "list", "-t", "alpha").stdout
    assert "Ann\\x1b[2J" in shown
    assert "\x1b" not in shown


def test_session_is_shown_by_its_id(there: Admit) -> None:
    (live,) = there.json("session", "list", "-t", "alpha")
    shown = there.json("session", "show", "-t", "alpha", str(live["id"]))
    assert (shown["user"], shown["rule"]) == (live["user"], "")
    assert there.run("session", "show", "-t", "alpha", "999999").exit_code == 2


@pytest.mark.parametrize("options", [("--address", "nine"), ("--site", "nowhere"), ("--nas", "none"), ("--mac", "x")])
def test_invalid_option_is_named(there: Admit, options: tuple[str, ...]) -> None:
    result = there.run("session", "list", "-t", "alpha", *options)
    assert result.exit_code == 2
    assert options[1] in result.output


def test_usage_is_aggregated_as_requested(there: Admit) -> None:
    (device,) = there.json("usage", "-t", "alpha", "--by", "endpoint")
    assert device == {
        "endpoint": "02:a0:c0:00:00:01",
        "sessions": 1,
        "seconds": 600,
        "input_octets": 5 << 32,
        "output_octets": 7,
    }
    (nas,) = there.json("usage", "-t", "alpha", "--by", "nas")
    assert (nas["nas"], nas["sessions"]) == ("switch-1", 1)
    assert there.json("usage", "-t", "alpha", "--since", "3d", "--until", "2d") == []
    ends_first = there.run("usage", "-t", "alpha", "--until", "2d", "--json")
    assert (ends_first.exit_code, json.loads(ends_first.stdout)["place"]) == (2, "until")


def test_tenant_sets_the_session_timeout(alpha: Admit) -> None:
    set_up = alpha.json("tenant", "set", "alpha", "--silent-reports", "5")
    assert (set_up["silent_reports"], set_up["silent_days"]) == (5, 7)
    assert alpha.json("tenant", "set", "alpha", "--silent-days", "60")["silent_days"] == 60
    for option, value, place in (
        ("--silent-reports", "1", "silent_reports"),
        ("--silent-reports", "101", "silent_reports"),
        ("--silent-days", "0", "silent_days"),
        ("--silent-days", "61", "silent_days"),
    ):
        result = alpha.run("tenant", "set", "alpha", option, value, "--json")
        assert (result.exit_code, json.loads(result.stdout)["place"]) == (2, place)
    both = alpha.run("tenant", "set", "alpha", "--silent-reports", "0", "--silent-days", "0").output
    assert "silent_reports" in both
    assert "silent_days" in both
    assert alpha.json("tenant", "show", "alpha")["silent_days"] == 60


def test_tenant_sets_the_realms_to_strip(alpha: Admit) -> None:
    assert alpha.json("tenant", "set", "alpha", "--realms", "CORP, corp.example")["realms"] == ["corp", "corp.example"]
    assert alpha.json("tenant", "show", "alpha")["realms"] == ["corp", "corp.example"]
    result = alpha.run("tenant", "set", "alpha", "--realms", "a b", "--json")
    assert (result.exit_code, json.loads(result.stdout)["place"]) == (2, "realms")
    assert alpha.json("tenant", "set", "alpha", "--realms", "")["realms"] == []
