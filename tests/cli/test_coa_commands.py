"""`./admit session disconnect` and `./admit coa`: output for users and scripts, and exit statuses."""

import json
import re

import psycopg
import pytest

from cli.layout import CHECKOUT

OF = ("-t", "alpha")
MAC = "00:a0:c0:00:00:01"


@pytest.fixture
def live(alpha, database):
    """Return the ids of two sessions of one device."""
    with psycopg.connect(database.owner_url) as connection:
        rows = connection.execute(
            "INSERT INTO sessions (tenant_id, nas_key, session_id, mac_key, mac, started_at, updated_at, nas_address, "
            "identity) SELECT id, 'switch|192.0.2.1', session, %s, %s, now(), now(), '192.0.2.1', 'anna' FROM tenants, "
            "unnest(ARRAY['s1', 's2']) session RETURNING id",
            (MAC, MAC),
        ).fetchall()
    return [row[0] for row in rows]


def test_session_disconnects_are_sent_listed_and_cancelled(alpha, live):
    asked = alpha.json("session", "disconnect", *OF, "--mac", "00A0.C000.0001")
    assert [row["session"] for row in asked] == live
    first = asked[0]
    assert {
        name: first[name] for name in ("kind", "state", "mac", "user", "nas", "nas_address", "reason", "packets")
    } == {
        "kind": "disconnect",
        "state": "queued",
        "mac": MAC,
        "user": "anna",
        "nas": "switch",
        "nas_address": "192.0.2.1",
        "reason": "requested",
        "packets": 0,
    }
    assert first["asked_by"].startswith("cli:")
    withdrawn = alpha.json("coa", "withdraw", *OF, str(first["id"]))
    assert withdrawn["state"] == "withdrawn"
    assert [row["id"] for row in alpha.json("coa", "list", *OF, "--state", "queued")] == [asked[1]["id"]]
    assert [row["state"] for row in alpha.json("coa", "list", *OF)] == ["queued", "withdrawn"]
    assert "Withdrawn by cli:" in alpha.run("coa", "list", *OF).output
    of_session = ("--session", str(live[1]), "--mac", MAC, "--user", "ANNA", "--reason", "requested")
    assert [row["session"] for row in alpha.json("coa", "list", *OF, *of_session)] == [live[1]]
    for other in (("--user", "bert"), ("--reason", "redecided"), ("--redecision", "1"), ("--mac", "00a0c0000002")):
        assert alpha.json("coa", "list", *OF, *other) == []
    no_number = alpha.run("coa", "withdraw", *OF, "9" * 20)
    assert (no_number.exit_code, "9223372036854775807" in no_number.output) == (2, True)


@pytest.mark.parametrize(("option", "kind"), [("--bounce", "bounce"), ("--reauthenticate", "reauthenticate")])
def test_other_request_kinds_are_sent(alpha, live, option, kind):
    [row] = alpha.json("session", "disconnect", *OF, "--session", str(live[1]), option)
    assert (row["kind"], row["session"]) == (kind, live[1])


def test_nas_response_is_explained(alpha, live, database):
    alpha.json("session", "disconnect", *OF, "--session", str(live[0]))
    with psycopg.connect(database.owner_url) as connection:
        connection.execute("UPDATE coa_requests SET state = 'refused', answer_code = 42, error_cause = 501")
    [row] = alpha.json("coa", "list", *OF)
    assert row["explanation"] == (
        "Error-Cause 501: The configuration of the NAS forbids it. "
        "Allow this server there as a dynamic authorization client."
    )


@pytest.mark.parametrize(
    ("arguments", "status", "error"),
    [
        ((), 2, "invalid-input"),
        # A session may start soon, so a retry is allowed.
        (("--user", "nobody"), 1, "no-live-session"),
        (("--session", "999999"), 2, "session-not-found"),
        (("--nas", "nowhere"), 2, "nas-not-found"),
    ],
)
def test_invalid_requests_are_rejected(alpha, live, arguments, status, error):
    result = alpha.run("session", "disconnect", *OF, *arguments, "--json")
    assert (result.exit_code, json.loads(result.stdout)["error"]) == (status, error)


def test_two_kinds_at_once_are_rejected(alpha, live):
    result = alpha.run("session", "disconnect", *OF, "--session", str(live[1]), "--bounce", "--reauthenticate")
    assert (result.exit_code, "exclude each other" in result.output) == (2, True)
    assert alpha.json("coa", "list", *OF) == []


def test_nas_and_tenant_are_configured_for_nat(alpha):
    nas = alpha.json("nas", "add", "Branch", *OF, "--identifier", "branch", "--behind-nat", "--signs-coa-answers")
    assert (nas["behind_nat"], nas["signs_coa_answers"]) == (True, True)
    assert alpha.json("tenant", "set", "alpha", "--nat-session-seconds", "600")["nat_session_seconds"] == 600
    result = alpha.run("tenant", "set", "alpha", "--nat-session-seconds", "59", "--json")
    assert json.loads(result.stdout)["place"] == "nat_session_seconds"
    assert alpha.json("tenant", "set", "alpha", "--nat-session-seconds", "0")["nat_session_seconds"] == 0


def test_json_fields_match_the_scripting_page(alpha, live):
    page = (CHECKOUT / "docs" / "reference" / "command-line.md").read_text(encoding="utf-8")
    named = dict(re.findall(r"^\| (a session|usage|a request|a re-decision) \| (.*) \|$", page, re.MULTILINE))
    [request] = alpha.json("session", "disconnect", *OF, "--session", str(live[0]))
    run = alpha.json("redecide", "start", *OF)
    rows = [
        ("a session", alpha.json("session", "list", *OF)[0]),
        ("a session", alpha.json("session", "show", *OF, str(live[0]))),
        ("usage", alpha.json("usage", *OF, "--by", "site")[0]),
        ("a request", request),
        ("a re-decision", alpha.json("redecide", "list", *OF)[0]),
        ("a re-decision", alpha.json("redecide", "show", *OF, str(run["id"]))),
    ]
    assert {(of, member) for of, each in rows for member in each if f"`{member}`" not in named[of]} == set()
