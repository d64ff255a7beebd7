"""`./admit redecide` and `./admit session change`: output for users and scripts, and exit statuses."""

import json

import psycopg
import pytest

OF = ("-t", "alpha")


@pytest.fixture
def owner(alpha, database):
    with psycopg.connect(database.owner_url, autocommit=True) as connection:
        yield connection


@pytest.fixture
def live(owner):
    """Return the id of a session."""
    return owner.execute(
        "INSERT INTO sessions (tenant_id, nas_key, session_id, mac_key, mac, started_at, updated_at, nas_address, "
        "identity) SELECT id, 'switch|192.0.2.1', 's', '00a0c0000001', '00a0c0000001', now(), now(), '192.0.2.1', "
        "'anna' FROM tenants RETURNING id"
    ).fetchone()[0]


@pytest.fixture
def waiting(owner, live):
    """Return the id of a run that waits for approval."""
    run = owner.execute(
        "INSERT INTO redecisions (tenant_id, scope, state, waits_for, sessions, disconnects) "
        "SELECT id, 'all', 'waiting', 'ceiling', 1, 1 FROM tenants RETURNING id"
    ).fetchone()[0]
    owner.execute(
        "INSERT INTO redecision_items (tenant_id, redecision_id, session_row, action, nas, nas_key, site, mac, "
        "identity, before_verdict, before_rule, before_vlan, before_monitored, after_verdict, after_rule, after_vlan, "
        "after_monitored, after_reason) SELECT id, %s, %s, 'disconnect', 'Switch', 'switch|192.0.2.1', 'main', "
        "'00a0c0000001', 'anna', 'permit', 'staff', '20', '', 'deny', '', '', '', 'fallback-denied' FROM tenants",
        (run, live),
    )
    return run


def test_settings_are_shown_and_updated(alpha):
    assert alpha.json("redecide", "set", *OF) == {
        "mode": "send",
        "per_second": 20,
        "ceiling_percent": 10,
        "ceiling_sessions": 1000,
        "every_minutes": 0,
    }
    changed = alpha.json("redecide", "set", *OF, "--mode", "preview", "--every-minutes", "15")
    assert (changed["mode"], changed["per_second"], changed["every_minutes"]) == ("preview", 20, 15)
    result = alpha.run("redecide", "set", *OF, "--per-second", "0", "--every-minutes", "2", "--json")
    told = json.loads(result.stdout)
    assert result.exit_code == 2
    assert "per_second must be 1 to 500, not 0." in told["message"]
    assert "every_minutes must be 5 to 1440, or 0 for never, not 2." in told["message"]
    assert alpha.json("redecide", "set", *OF) == changed


def test_live_sessions_are_previewed_by_the_active_policy(alpha, live):
    told = alpha.json("redecide", "preview", *OF, "--in-force")
    assert (told["sessions"], told["cannot_be_redecided"]) == (1, {"no-class": 1})
    assert (told["changes"], told["may_disconnect"], told["over_ceiling"], told["mode"]) == ([], 0, False, "send")
    refused = alpha.run("redecide", "preview", *OF, "--in-force", "--version", "1", "--json")
    assert refused.exit_code == 2
    assert "exclude each other." in refused.stderr + refused.stdout


def test_invalid_draft_is_rejected_with_paths(with_dictionary, tmp_path):
    with_dictionary.json(
        "policy", "save", *OF, "-s", "corp", str(_written(tmp_path, {"fallback": {"verdict": "deny"}}))
    )
    draft = _written(tmp_path, {"fallback": {"verdict": "perhaps"}})
    result = with_dictionary.run("redecide", "preview", *OF, "--draft", str(draft), "--json")
    assert result.exit_code == 2
    assert "fallback.verdict" in result.stdout


def _written(tmp_path, document):
    file = tmp_path / "policy.json"
    file.write_text(json.dumps(document))
    return file


def test_run_is_started_listed_shown_and_cancelled(alpha, live):
    started = alpha.json("redecide", "start", *OF)
    assert (started["state"], started["cause"]) == ("deciding", "requested")
    assert [run["id"] for run in alpha.json("redecide", "list", *OF)] == [started["id"]]
    again = alpha.run("redecide", "start", *OF, "--json")
    assert (again.exit_code, json.loads(again.stdout)["place"]) == (1, "redecision")
    stopped = alpha.json("redecide", "stop", *OF, str(started["id"]))
    assert (stopped["state"], stopped["withdrawn"]) == ("stopped", 0)
    assert "Stopped by cli:" in alpha.run("redecide", "show", *OF, str(started["id"])).output


def test_waiting_run_is_explained_and_approved(alpha, waiting, owner):
    text = alpha.run("redecide", "show", *OF, str(waiting)).output
    assert "1 to disconnect:" in text
    assert "before  permit by staff, VLAN 20" in text
    assert "00:a0:c0:00:00:01 anna at Switch" in text
    assert alpha.json("redecide", "approve", *OF, str(waiting))["state"] == "sending"
    actions = owner.execute("SELECT action, target FROM audit_log WHERE action LIKE 'redecision.%'").fetchall()
    assert actions == [("redecision.approve", str(waiting))]


@pytest.mark.parametrize("verb", ["show", "approve", "stop"])
def test_unknown_run_is_an_error(alpha, verb):
    result = alpha.run("redecide", verb, *OF, "4711", "--json")
    assert (result.exit_code, json.loads(result.stdout)["error"]) == (2, "redecision-not-found")


def test_session_is_changed_by_dictionary_attributes(with_dictionary, live, owner):
    given = ("--set", "Session-Timeout=600", "--set", "Tunnel-Private-Group-Id:1=30")
    [asked] = with_dictionary.json("session", "change", *OF, "--session", str(live), *given)
    assert (asked["kind"], asked["session"]) == ("change", live)
    assert owner.execute("SELECT attributes FROM coa_requests").fetchone()[0] == [
        {"attribute": "Session-Timeout", "value": "600"},
        {"attribute": "Tunnel-Private-Group-Id", "value": "30", "tag": 1},
    ]


@pytest.mark.parametrize(
    ("given", "place"),
    [("Session-Timeout", "set"), ("Frobnication=1", "attributes[0]"), ("Session-Timeout=soon", "attributes[0]")],
)
def test_unsupported_request_is_an_error(with_dictionary, live, owner, given, place):
    result = with_dictionary.run("session", "change", *OF, "--session", str(live), "--set", given, "--json")
    assert (result.exit_code, json.loads(result.stdout)["place"]) == (2, place)
    assert owner.execute("SELECT count(*) FROM coa_requests").fetchone() == (0,)
