"""`./admit policy` on a real database, in its own installation."""

import json
from typing import get_args

from nac.cellformat.methods import METHODS
from nac.engine.attributes import AttributeKind
from nac.engine.operators import OPERATORS
from nac.kit.db import TenantScope, session_scope
from nac.policies import service as policies
from nac.policies.schema import policy_schema
from tests.factories.tenancy import ACTOR
from tests.policies.documents import PLACES_OF_BAD, bad, good, group_rule


def test_policy_is_saved_published_and_rolled_back(policy_command):
    assert policy_command("save", "-", "-s", "main", "--name", "Main", document=good()).exit_code == 0
    assert json.loads(policy_command("publish", "-s", "main", "--json").output)["status"] == "published"
    policy_command("save", "-", "-s", "main", "--comment", "VLAN 30", document=good("30"))
    policy_command("publish", "-s", "main", "--version", "2")
    assert json.loads(policy_command("rollback", "-s", "main", "--version", "1", "--json").output)["version"] == 3

    assert json.loads(policy_command("show", "-s", "main").output) == good()
    assert json.loads(policy_command("show", "-s", "main", "--version", "2", "--json").output)["document"] == good("30")
    listed = json.loads(policy_command("list", "--json").output)
    assert [(row["slug"], row["name"], row["published_version"]) for row in listed] == [("main", "Main", 3)]
    versions = json.loads(policy_command("list", "-s", "main", "--json").output)
    assert [(row["version"], row["status"]) for row in versions] == [
        (3, "published"),
        (2, "superseded"),
        (1, "superseded"),
    ]
    assigned = policy_command("assign", "-s", "main", "--site", "main", "--json")
    assert json.loads(assigned.output) == {"site": "main", "policy": "main", "in_force": 3}


def test_policy_without_source_text_is_shown_with_ordered_keys(policy_command, app_engine, tenant):
    reply = [{"attribute": "Session-Timeout", "operator": ":=", "value": "600"}]
    either = {"any": [{"not": {"attribute": "method", "operator": "equals", "value": "mab"}}, {"all": []}]}
    document = {
        "pinned_denies": [{"id": "p", "name": "Pinned", "when": group_rule()["when"]}],
        "rules": [
            {"id": "r", "name": "Rule", "when": either, "then": {"verdict": "permit", "vlan": "20", "reply": reply}}
        ],
        "fallback": {"verdict": "deny"},
    }
    with session_scope(TenantScope(tenant.id), engine=app_engine) as session:
        policies.create_policy(session, actor=ACTOR, tenant_id=tenant.id, slug="main")
        policies.save_draft(session, actor=ACTOR, tenant_id=tenant.id, slug="main", document=document)
    assert policy_command("show", "-s", "main").output == json.dumps(document, indent=2) + "\n"
    shown = policy_command("show", "-s", "main", "--json").output
    assert json.dumps(json.loads(shown)["document"]) == json.dumps(document)


def test_policy_is_shown_as_in_its_file(policy_command):
    written = '{"fallback":   {"verdict": "deny"},\n "rules": []}'
    policy_command("save", "-", "-s", "main", document=written)
    policy_command("publish")
    assert policy_command("show").output == written + "\n"
    shown = json.loads(policy_command("show", "--json").output)
    assert list(shown["document"]) == ["fallback", "rules"]
    policy_command("save", "-", document=good())
    policy_command("publish")
    policy_command("rollback", "--version", "1")
    assert policy_command("show").output == written + "\n"


def test_wrong_version_error_names_the_option(policy_command):
    policy_command("save", "-", "-s", "main", document=good())
    for verb in ("publish", "rollback", "show"):
        assert policy_command(verb, "-s", "main", "--version", "7").stderr.startswith("Error: version: ")


def test_every_error_is_printed_and_nothing_is_stored(policy_command):
    for verb in (("check", "-"), ("save", "-", "-s", "main")):
        result = policy_command(*verb, document=bad())
        assert result.exit_code == 2
        assert "5 mistakes" in result.stderr
        assert all(f"  {place}: " in result.stderr for place in PLACES_OF_BAD)
        answer = json.loads(policy_command(*verb, "--json", document=bad()).stdout)
        assert {mistake["place"] for mistake in answer["mistakes"]} == PLACES_OF_BAD
    assert json.loads(policy_command("list", "--json").output) == []


def test_valid_policy_passes_validation_without_being_stored(policy_command):
    result = policy_command("check", "-", document=good())
    assert (result.exit_code, result.output) == (0, "The policy is valid: 1 rule, fallback deny.\n")
    assert policy_command("list").output == "none\n"


def test_unknown_tenant_or_policy_gives_one_sentence(policy_command):
    for result in (
        policy_command("list", tenant_slug="nobody"),
        policy_command("publish", "-s", "nothing"),
        policy_command("show", "-s", "nothing"),
    ):
        assert result.exit_code == 2
        assert result.stderr.startswith("Error: ")
        assert result.stderr.count("\n") == 1


def test_attributes_and_schema_are_printed(policy_command):
    result = policy_command("attributes", "--json", tenant_slug="")
    rows = {row["attribute"]: row for row in json.loads(result.output)}
    assert {"mac", "endpoint.group", "radius.<name>"} <= rows.keys()
    assert rows["method"]["choices"] == list(METHODS)
    assert rows["mac.random"]["operators"] == ["equals", "exists"]
    assert {row["kind"] for row in rows.values()} == set(get_args(AttributeKind))
    assert rows["mdm.<name>"]["operators"] == [each for each in OPERATORS if each != "within"]
    shown = policy_command("attributes", tenant_slug="").output
    assert f"  {', '.join(METHODS)}  " in shown
    assert "\noperators of boolean: equals, exists\n" in shown
    assert json.loads(policy_command("schema", tenant_slug="").output) == policy_schema()
