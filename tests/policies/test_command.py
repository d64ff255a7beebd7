"""`./admit policy` on a real database, in an installation of the test's own."""

import json
from typing import get_args

import pytest
from click.testing import CliRunner
from jsonschema import Draft202012Validator
from sqlalchemy import Engine, text

from cli.main import admit
from nac.engine.attributes import Kind
from nac.engine.operators import OPERATORS
from nac.models import Tenant
from tests.policies.documents import PLACES_OF_BAD, bad, good, group_rule


@pytest.fixture
def policy_command(monkeypatch, tmp_path, database, owner_engine: Engine, tenant: Tenant):
    """Runs `admit policy ...`; a document goes in as standard input."""
    layout = {"run": str(tmp_path), "postgres": str(tmp_path), "database_account": None, "account": None}
    (tmp_path / "layout.json").write_text(json.dumps(layout))
    (tmp_path / "admit.env").write_text("")
    monkeypatch.setenv("ADMIT_VAR_DIR", str(tmp_path))
    monkeypatch.setenv("ADMIT_DATABASE_URL", database.app_url)
    with owner_engine.begin() as connection:
        # A cell that has seen every transaction to come: publishing waits for nobody.
        connection.execute(text("UPDATE cells SET replica_position = '4000000000:4000000000:'"))

    def run(*arguments, document=None, tenant_slug="alpha"):
        options = ["--tenant", tenant_slug] if tenant_slug else []
        given = document if isinstance(document, str) else json.dumps(document)
        return CliRunner().invoke(admit, ["policy", *arguments, *options], input=given, catch_exceptions=False)

    return run


def test_policy_goes_from_file_to_force_and_back(policy_command):
    assert policy_command("save", "-", "-s", "main", "--name", "Main", document=good()).exit_code == 0
    assert json.loads(policy_command("publish", "-s", "main", "--json").output)["status"] == "published"
    policy_command("save", "-", "-s", "main", "--comment", "VLAN 30", document=good("30"))
    policy_command("publish", "-s", "main", "--version", "2")
    assert json.loads(policy_command("rollback", "-s", "main", "--version", "1", "--json").output)["version"] == 3

    assert json.loads(policy_command("show", "-s", "main").output) == good()
    assert json.loads(policy_command("show", "-s", "main", "--version", "2", "--json").output)["document"] == good("30")
    listed = json.loads(policy_command("list", "--json").output)
    assert [(row["slug"], row["name"], row["in_force"]) for row in listed] == [("main", "Main", 3)]
    versions = json.loads(policy_command("list", "-s", "main", "--json").output)
    assert [(row["version"], row["status"]) for row in versions] == [
        (3, "published"),
        (2, "superseded"),
        (1, "superseded"),
    ]
    assigned = policy_command("assign", "-s", "main", "--site", "main", "--json")
    assert json.loads(assigned.output) == {"site": "main", "policy": "main", "in_force": 3}


def test_policy_is_shown_with_its_keys_as_people_write_them(policy_command):
    reply = [{"attribute": "Session-Timeout", "operator": ":=", "value": "600"}]
    either = {"any": [{"not": {"attribute": "method", "operator": "equals", "value": "mab"}}, {"all": []}]}
    document = {
        "pinned_denies": [{"id": "p", "name": "Pinned", "when": group_rule()["when"]}],
        "rules": [
            {"id": "r", "name": "Rule", "when": either, "then": {"verdict": "permit", "vlan": "20", "reply": reply}}
        ],
        "fallback": {"verdict": "deny"},
    }
    saved = policy_command("save", "-", "-s", "main", document=document)
    assert saved.exit_code == 0, saved.stderr
    assert policy_command("show", "-s", "main").output == json.dumps(document, indent=2) + "\n"
    shown = policy_command("show", "-s", "main", "--json").output
    assert json.dumps(json.loads(shown)["document"]) == json.dumps(document)


def test_place_of_a_wrong_version_is_spelled_as_the_option(policy_command):
    policy_command("save", "-", "-s", "main", document=good())
    for verb in ("publish", "rollback", "show"):
        assert policy_command(verb, "-s", "main", "--version", "7").stderr.startswith("Error: version: ")


def test_every_mistake_is_printed_and_nothing_is_stored(policy_command):
    for verb in (("check", "-"), ("save", "-", "-s", "main")):
        result = policy_command(*verb, document=bad())
        assert result.exit_code == 1
        assert "5 mistakes" in result.stderr
        assert all(f"  {place}: " in result.stderr for place in PLACES_OF_BAD)
        answer = json.loads(policy_command(*verb, "--json", document=bad()).stdout)
        assert {mistake["place"] for mistake in answer["mistakes"]} == PLACES_OF_BAD
    assert json.loads(policy_command("list", "--json").output) == []


def test_good_policy_passes_the_check_without_being_stored(policy_command):
    result = policy_command("check", "-", document=good())
    assert (result.exit_code, result.output) == (0, "The policy is valid: 1 rules, fallback deny.\n")
    assert policy_command("list").output == "none\n"


def test_file_that_is_no_json_is_refused_with_its_place(policy_command):
    result = policy_command("check", "-", document='{"rules": [,]}')
    assert result.exit_code == 1
    assert "line 1, column 12: is not JSON" in result.stderr


def test_unknown_tenant_and_policy_are_one_sentence(policy_command):
    for result in (
        policy_command("list", tenant_slug="nobody"),
        policy_command("publish", "-s", "nothing"),
        policy_command("show", "-s", "nothing"),
    ):
        assert result.exit_code == 1
        assert result.stderr.startswith("Error: ")
        assert result.stderr.count("\n") == 1


def test_attributes_are_listed(policy_command):
    result = policy_command("attributes", "--json", tenant_slug="")
    rows = {row["attribute"]: row for row in json.loads(result.output)}
    assert {"mac", "endpoint.group", "radius.<name>"} <= rows.keys()
    assert rows["method"]["choices"] == ["mab", "eap-tls", "pap", "chap"]
    assert rows["mac.random"]["operators"] == ["equals", "exists"]
    assert "less_than" in rows["radius.<name>"]["operators"]
    assert "less_than" not in rows["mac"]["operators"]
    assert {row["kind"] for row in rows.values()} == set(get_args(Kind))
    assert rows["time"]["operators"] == ["within"]
    assert rows["mdm.<name>"]["operators"] == [each for each in OPERATORS if each != "within"]
    assert "in_network" in rows["certificate.san.ip"]["operators"]
    shown = policy_command("attributes", tenant_slug="").output
    assert "  mab, eap-tls, pap, chap  " in shown
    assert "\noperators of boolean: equals, exists\n" in shown
    assert "\noperators of time: within\n" in shown


def test_schema_is_printed_and_takes_a_good_policy(policy_command):
    schema = json.loads(policy_command("schema", tenant_slug="").output)
    validator = Draft202012Validator(schema)
    assert validator.is_valid(good())
    assert not validator.is_valid({"rules": 7})
