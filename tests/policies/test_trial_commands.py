"""`./admit policy validate, test, simulate, replay, publish, hits, remove` on a real database."""

import json

import pytest
from click.testing import CliRunner
from sqlalchemy.orm import Session

from cli.main import admit
from nac.kit.clock import utc_now
from nac.models import PolicyHits
from nac.tenancy.tenants import service as tenants
from tests.factories.rows import make_row
from tests.policies.documents import ADMITTED, PLACES_OF_BAD, bad, good, group_rule

PRINTER = {"method": "mab", "endpoint.group": ["printers"]}
TEST = {"name": "t", "request": PRINTER, "expect": {"vlan": "20"}}


@pytest.fixture
def file_of(tmp_path):
    def write(content, name="given.json"):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
        return str(path)

    return write


def test_validate_works_offline_without_a_tenant(monkeypatch, tmp_path, file_of):
    monkeypatch.setenv("ADMIT_VAR_DIR", str(tmp_path / "nothing"))

    def validate(content, *options):
        return CliRunner().invoke(admit, ["policy", "validate", file_of(content), *options], catch_exceptions=False)

    assert validate(good()).output == "The policy is valid: 1 rule, fallback deny.\n"
    assert json.loads(validate(good() | {"tests": [TEST]}, "--json").output) == {
        "valid": True,
        "rules": 1,
        "tests": 1,
        "notes": [],
    }
    # The command uses the dictionaries of the installed radiusd and does not check names of a tenant.
    refused = validate(bad(), "--json")
    assert refused.exit_code == 2
    places = {mistake["place"] for mistake in json.loads(refused.stdout)["mistakes"]}
    assert places == {"rules[1].when.any[2].attribute", "rules[1].then.reply[0]"}


def test_validate_checks_names_of_the_chosen_tenant(policy_command):
    refused = policy_command("validate", "-", "--json", document=bad())
    assert {mistake["place"] for mistake in json.loads(refused.stdout)["mistakes"]} == PLACES_OF_BAD


def test_invalid_files_are_rejected_by_every_command(policy_command, file_of):
    policy_command("save", "-", "-s", "main", document=good())
    policy_command("publish")
    request = file_of(PRINTER, "request.json")
    wrong = file_of(b'{"rules": {}, "fallback": 5, "tests": "x", "x": 1}', "wrong.json")
    for path, told in ((file_of(b"\xff\xfe\xfa"), ": is not UTF-8 text"), (wrong, "4 mistakes")):
        for arguments in (
            *(("validate", path), ("check", path), ("save", path), ("test", "--file", path)),
            ("simulate", "--draft", path, "--request", request),
            ("replay", "--draft", path, "--days", "1"),
        ):
            result = policy_command(*arguments)
            assert (result.exit_code, result.stdout) == (2, ""), arguments
            assert told in result.stderr
    assert [row["published_version"] for row in json.loads(policy_command("list", "--json").output)] == [1]


def test_tests_of_a_file_or_the_newest_version_are_run(policy_command, file_of):
    failing = good("21") | {"tests": [TEST]}
    policy_command("save", "-", "-s", "main", document=good() | {"tests": [TEST]})
    passed = policy_command("test")
    assert (passed.exit_code, passed.output) == (0, "t: passed\n1 of 1 tests passed.\n")
    failed = policy_command("test", "--file", file_of(failing))
    assert failed.exit_code == 1
    assert failed.output.startswith("tests[0] 't': vlan: expected 20, got 21. Rule 'By group' (r) matched: ")
    row = json.loads(policy_command("test", "--file", file_of(failing), "--json").output)
    assert (row["passed"], row["tests"][0]["unmet"]) == (False, [{"what": "vlan", "expected": "20", "came": "21"}])
    assert row["tests"][0]["decision"]["rule"] == "r"


def test_failing_tests_are_reported_on_publish(policy_command):
    policy_command("save", "-", "-s", "main", document=good("21") | {"tests": [TEST]})
    result = policy_command("publish")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "vlan: expected 20, got 21" in result.stderr
    row = json.loads(policy_command("publish", "--json").stdout)
    assert (row["published"], row["failed_tests"][0]["name"]) == (False, "t")


def test_simulation_prints_permit_and_deny(policy_command, file_of):
    policy_command("save", "-", "-s", "main", document=good())
    policy_command("publish")
    permit = policy_command("simulate", "--request", file_of(PRINTER))
    assert permit.exit_code == 0
    assert permit.output.startswith("permit, VLAN 20 (rule-permitted)\nby main version 1, at ")
    assert "reply: Tunnel-Private-Group-Id:1 := 20" in permit.output
    deny = policy_command("simulate", "--request", file_of({"mac": "001122334455"}), "--json")
    assert deny.exit_code == 0
    row = json.loads(deny.output)
    assert (row["verdict"], row["rule"], row["reason"], row["reply"]) == ("deny", "", "fallback-denied", [])
    assert row["filled"] == ["endpoint.known", "mac.random", "session.count.endpoint"]
    at = policy_command("simulate", "--request", file_of(PRINTER), "--at", "2026-01-05T10:00:00+01:00", "--json")
    assert json.loads(at.output)["at"] == "2026-01-05T09:00:00Z"


def test_invalid_simulation_input_exits_2_with_every_error(policy_command, file_of):
    policy_command("save", "-", "-s", "main", document=good())
    request = file_of({"colour": "red", "mac": "zz"}, "request.json")
    draft = file_of(bad(), "draft.json")
    result = policy_command("simulate", "--draft", draft, "--request", request, "--json")
    assert result.exit_code == 2
    places = [mistake["place"] for mistake in json.loads(result.stdout)["mistakes"]]
    assert places[:2] == ["request.colour", "request.mac[0]"]
    assert {place.removeprefix("policy.") for place in places[2:]} == PLACES_OF_BAD
    no_json = file_of(b"{", "no.json")
    for option in ("--draft", "--request"):
        other = {"--draft": "--request", "--request": "--draft"}[option]
        wrong = policy_command("simulate", option, no_json, other, request)
        assert (wrong.exit_code, "line 1" in wrong.stderr) == (2, True)
    assert policy_command("simulate", "--request", "nowhere.json").exit_code == 2
    assert policy_command("simulate", "--request", "-", "--at", "noon", document=PRINTER).exit_code == 2
    for wrong in (("--site", "mars"), ("--slug", "mars")):
        assert policy_command("simulate", "--request", file_of(PRINTER), *wrong).exit_code == 2
    assert policy_command("simulate", "--request", file_of(PRINTER), tenant_slug="mars").exit_code == 2


def test_replay_prints_differences_and_exits_as_requested(policy_command, record, publish, file_of):
    publish(good())
    record(times=2)
    record(policy_version=0, reason="wrong-password", permitted=False)
    record(mac=None, identity="ann", vlan="7")
    draft = file_of(good("30"))
    row = json.loads(policy_command("replay", "--draft", draft, "--days", "7", "--json").output)
    assert (row["total"], row["unchanged"], row["changed"]) == (4, 0, 3)
    assert row["not_replayable"] == {"wrong-password": 1}
    difference, other = row["differences"]
    assert (other["from"]["vlan"], other["examples"][0]["identity"]) == ("7", "ann")
    assert difference["from"] == ADMITTED | {"vlan": "20"}
    assert difference["to"] == ADMITTED | {"vlan": "30"}
    assert (difference["requests"], difference["devices"]) == (2, 1)
    assert difference["examples"][0]["mac"] == "00:11:22:33:44:55"
    shown = policy_command("replay", "--draft", draft, "--days", "7")
    assert shown.exit_code == 0
    assert "2 requests of 1 device: permit by r, VLAN 20 -> permit by r, VLAN 30" in shown.output
    assert " ann from " in shown.output
    assert f"digest {row['digest']}" in shown.output
    assert "1 not replayed: Wrong password (wrong-password)" in shown.output
    assert policy_command("replay", "--draft", draft, "--days", "7", "--exit-code").exit_code == 1
    assert policy_command("replay", "--days", "7", "--against", "published", "--exit-code").exit_code == 0
    assert policy_command("replay", "--days", "0").exit_code == 2
    assert policy_command("replay", "--days", "7", "--version", "9").exit_code == 2


def test_publish_requires_the_digest_from_replay(policy_command, record, publish, do):
    publish(good())
    record()
    do(tenants.update_replay_days, days=7)
    policy_command("save", "-", document=good("30"))
    refused = policy_command("publish", "--json")
    assert refused.exit_code == 1
    answer = json.loads(refused.stdout)
    assert (answer["published"], answer["replay"]["changed"]) == (False, 1)
    told = json.loads(policy_command("replay", "--days", "7", "--json").output)["digest"]
    assert told == answer["replay"]["digest"]
    words = policy_command("publish")
    assert "VLAN 20 -> permit by r, VLAN 30" in words.stderr
    assert f"--acknowledge {told}" in words.stderr
    assert policy_command("publish", "--acknowledge", told).exit_code == 0
    shown = json.loads(policy_command("show", "--json").output)
    assert (shown["version"], shown["replayed"]["digest"]) == (2, told)
    assert shown["replayed"]["acknowledged_by"].startswith("cli:")


def test_hits_are_shown_for_every_rule(policy_command, publish, owner_engine, tenant):
    policy = publish(good())
    values = {"policy_id": policy.id, "version": 1, "rule_id": "", "day": utc_now().date(), "hits": 7}
    with Session(owner_engine) as session, session.begin():
        make_row(session, PolicyHits.__table__, tenant.id, last_at=utc_now(), **values)
    row = json.loads(policy_command("hits", "--json").output)
    assert (row["slug"], row["version"]) == ("main", 1)
    assert [(rule["rule"], rule["hits_1d"], rule["never_hit"]) for rule in row["rules"]] == [
        ("r", 0, True),
        ("", 7, False),
    ]
    shown = policy_command("hits").output.splitlines()
    assert shown[2].endswith("no hits since publication")
    assert "fallback" in shown[3]


def test_policy_is_deleted_once_no_site_uses_it(policy_command, publish):
    publish(good())
    refused = policy_command("remove", "-s", "main")
    assert refused.exit_code == 1
    assert "Sites use policy 'main': main" in refused.stderr
    policy_command("save", "-", "-s", "other", document=good())
    policy_command("publish", "-s", "other")
    policy_command("assign", "-s", "other", "--site", "main")
    assert json.loads(policy_command("remove", "-s", "main", "--json").output) == {"removed": "main"}
    assert [row["slug"] for row in json.loads(policy_command("list", "--json").output)] == ["other"]


def test_slug_is_optional_if_there_is_one_policy(policy_command):
    nothing = policy_command("publish")
    assert nothing.exit_code == 2
    assert "No policy exists." in nothing.stderr
    policy_command("save", "-", "-s", "main", document=good())
    assert policy_command("publish").exit_code == 0
    assert policy_command("assign", "--site", "main").exit_code == 0
    policy_command("save", "-", "-s", "other", document=good())
    for arguments in (("show",), ("publish",), ("rollback", "--version", "1"), ("assign", "--site", "main")):
        result = policy_command(*arguments)
        assert result.exit_code == 2
        assert "Choose one of: main, other." in result.stderr


def decision_ids():
    given = CliRunner().invoke(admit, ["decisions", "-t", "alpha", "--json"], catch_exceptions=False)
    return [row["id"] for row in json.loads(given.stdout)]


def test_recorded_decision_is_simulated_with_its_request(policy_command, publish, record, file_of):
    publish(good())
    record(request={"endpoint.group": ["phones"]}, vlan="", rule_id="", reason="fallback-denied", permitted=False)
    (reference,) = decision_ids()
    draft = file_of({"rules": [good()["rules"][0] | {"then": {"verdict": "permit", "vlan": "9"}}]})
    same = policy_command("simulate", "--decision", reference, "--draft", draft)
    assert same.output.startswith("recorded result: deny (fallback-denied) by version 1\ndeny (fallback-denied)\n")
    known = {"attribute": "endpoint.known", "operator": "equals", "value": True}
    known = file_of({"rules": [group_rule(vlan="8") | {"when": known}]}, "known.json")
    row = json.loads(policy_command("simulate", "--decision", reference, "--draft", known, "--json").output)
    assert (row["vlan"], row["site"], row["filled"], row["recorded"]["reason"]) == ("8", "main", [], "fallback-denied")
    assert row["request"] == {"method": ["mab"], "endpoint.known": [True], "endpoint.group": ["phones"]}


def test_unknown_decision_is_rejected(policy_command, publish):
    publish(good())
    for reference in ("1-1", "nonsense", "9999999999999999-999999999999999999"):
        refused = policy_command("simulate", "--decision", reference)
        assert (refused.exit_code, "Unknown decision" in refused.stderr) == (2, True)


def test_request_and_decision_exclude_each_other(policy_command, file_of):
    assert "Use either" in policy_command("simulate").stderr
    assert "Use either" in policy_command("simulate", "--decision", "1-1", "--request", file_of(PRINTER)).stderr
