"""`docs/reference`: the schema accepts the documents that the engine accepts, and the pages list every key."""

import json
import re

import pytest
from hypothesis import given, settings
from jsonschema import Draft202012Validator

from cli.layout import CHECKOUT
from nac.engine import PolicyErrors, compile_policy
from nac.engine.attributes import ATTRIBUTE_CATALOGUE, AttributeKind
from nac.engine.operators import OPERATORS
from nac.engine.policy_tests import _EXPECTATION_KEYS
from nac.engine.vendors import all_vendors
from nac.policies.json_rows import _KEY_ORDER
from nac.policies.schema import policy_schema
from tests.engine.builders import DENY, PERMIT, compare, pinned, policy_of, rule
from tests.engine.invalid_conditions import MALFORMED, SSID
from tests.engine.strategies import policies
from tests.run_depth import examples

REFERENCE = CHECKOUT / "docs" / "reference"
SCHEMA = json.loads((REFERENCE / "policy.schema.json").read_text())
VALIDATOR = Draft202012Validator(SCHEMA)
CASES = sorted((CHECKOUT / "tests" / "engine" / "cases").glob("*.json"))


def mistakes(document):
    return [f"{error.json_path}: {error.message}"[:200] for error in VALIDATOR.iter_errors(document)]


def test_file_is_identical_to_the_command_output():
    Draft202012Validator.check_schema(SCHEMA)
    assert policy_schema() == SCHEMA, "make it anew: ./admit policy schema > docs/reference/policy.schema.json"


@pytest.mark.parametrize("path", CASES, ids=[path.stem for path in CASES])
def test_case_files_match_the_schema(path):
    case = json.loads(path.read_text())
    assert mistakes(case["policy"]) == []
    if "fallback" in case:
        assert mistakes({"fallback": case["fallback"]}) == []


def test_expectation_has_the_keys_of_the_engine():
    assert set(SCHEMA["$defs"]["test"]["properties"]["expect"]["properties"]) == set(_EXPECTATION_KEYS)


def test_document_of_the_decision_record_matches():
    (text,) = re.findall(r"```json\n(.*?)```", (CHECKOUT / "docs/adr/0005-policy-document.md").read_text(), re.DOTALL)
    document = json.loads(text.replace('"id": "..."', '"id": "a"').replace('"when": {}', '"when": {"all": []}'))
    assert mistakes(document) == []


@settings(deadline=None, max_examples=examples(150))
@given(policies())
def test_engine_accepted_documents_match_the_schema(document):
    compile_policy(document, refuse_unreachable=False)
    assert mistakes(document) == []


WRONG = [
    *(condition for condition, _, _ in MALFORMED),
    compare("mac.random", "equals", "true"),
    compare("time", "exists"),
    compare("time", "within", {}),
    compare("time", "within", {"days": ["monday"]}),
    compare("time", "within", {"from": "24:00"}),
    compare("time", "within", {"dates": {"until": "2026-01-01"}}),
    {"condition": 5},
]


@pytest.mark.parametrize("condition", WRONG, ids=[json.dumps(each)[:60] for each in WRONG])
def test_schema_and_engine_reject_malformed_conditions(condition):
    document = policy_of(rule("r", condition))
    assert mistakes(document)
    with pytest.raises(PolicyErrors):
        compile_policy(document)


@pytest.mark.parametrize(
    "document",
    [
        [],
        {"colour": 1},
        {"rules": {}},
        {"rules": [{"id": "a", "name": "x", "when": SSID}]},
        {"rules": [{**rule("a b", SSID)}]},
        {"rules": [{**rule("a", SSID), "name": " "}]},
        {"rules": [rule("a", SSID, {"verdict": "maybe"})]},
        {"rules": [rule("a", SSID, {**DENY, "vlan": "20"})]},
        {"rules": [rule("a", SSID, {**PERMIT, "colour": "red"})]},
        {"rules": [rule("a", SSID, {**PERMIT, "reply": [{"attribute": "X", "value": 5}]})]},
        {"pinned_denies": [{**pinned("a", SSID), "then": PERMIT}]},
        {"conditions": {"a b": SSID}},
        {"fallback": {}},
    ],
)
def test_schema_and_engine_reject_malformed_documents(document):
    assert mistakes(document)
    with pytest.raises(PolicyErrors):
        compile_policy(document)


def test_every_attribute_is_in_the_schema():
    assert [name for name in ATTRIBUTE_CATALOGUE if f'"{name}"' not in json.dumps(SCHEMA)] == []


def test_every_operator_key_and_kind_is_documented():
    page = (REFERENCE / "policy.md").read_text(encoding="utf-8")
    assert [operator for operator in OPERATORS if f"\n| `{operator}` | " not in page] == []
    words = {*_KEY_ORDER, *AttributeKind.__args__}
    assert {word for word in words if not re.search(rf'[`"]{word}[`"]', page)} == set()


def test_vendor_page_lists_the_attributes_of_each_vendor():
    page = (REFERENCE / "vendors.md").read_text(encoding="utf-8")
    rows = {
        row[0]: row[1:]
        for row in re.findall(r"^\| `([a-z-]+)` \| (.+) \| (.+) \| (.+) \| (.+) \|$", page, re.MULTILINE)
    }
    told = {
        name: ["-" if cell == "-" else re.findall(r"`([^`]+)`", cell)[0] for cell in row] for name, row in rows.items()
    }
    forms = {
        name: [vendor.forms[key].attributes for key in ("acl", "downloadable_acl", "role", "psk")]
        for name, vendor in all_vendors().items()
    }
    assert told == {name: [each[0].attribute if each else "-" for each in row] for name, row in forms.items()}
