"""Tests that a policy contains: their format and their errors."""

from datetime import UTC, datetime

import pytest

from nac.engine import compile_policy, parse_moment
from nac.engine.policy_tests import DEFAULT_TEST_TIME, MAX_TESTS
from nac.engine.vendors import ReplyAttribute
from tests.engine.builders import compare, mistakes, policy_of, rule

MAB = {"method": "mab"}


def policy_with(*tests):
    return policy_of(rule("r", compare("method", "equals", "mab")), tests=list(tests))


def test_every_part_of_a_test_is_parsed():
    reply = [{"attribute": "Filter-Id", "operator": "+=", "value": "staff", "tag": 2}]
    document = {
        "name": "a printer",
        "request": {"mac": "00-11-22-33-44-55", "endpoint.group": ["a", "b"]},
        "at": "2026-01-05T10:00:00+01:00",
        "site": "main",
        "expect": {"verdict": "permit", "rule": "r", "reason": "rule-permitted", "vlan": "", "reply": reply},
    }
    (test,) = compile_policy(policy_with(document)).tests
    assert (test.name, test.site, test.place) == ("a printer", "main", "tests[0]")
    assert test.request.attributes == {"mac": ("001122334455",), "endpoint.group": ("a", "b")}
    assert test.request.at == int(datetime(2026, 1, 5, 9, tzinfo=UTC).timestamp())
    expect = test.expect
    assert (expect.verdict, expect.rule, expect.reason, expect.vlan) == ("permit", "r", "rule-permitted", "")
    assert expect.reply == (ReplyAttribute("Filter-Id", "+=", "staff", 2),)


def test_omitted_expectation_is_not_checked():
    (test,) = compile_policy(policy_with({"name": "t", "request": MAB, "expect": {"rule": ""}})).tests
    assert (test.request.at, test.site) == (DEFAULT_TEST_TIME, "")
    assert datetime.fromtimestamp(DEFAULT_TEST_TIME, UTC).strftime("%a %H:%M") == "Mon 12:00"
    assert (test.expect.verdict, test.expect.reason, test.expect.vlan, test.expect.reply) == (None, None, None, ())


GOOD = {"name": "t", "request": MAB, "expect": {"verdict": "permit"}}


@pytest.mark.parametrize(
    ("change", "place", "message"),
    [
        ({"name": ""}, "tests[0].name", "must be text"),
        ({"colour": "red"}, "tests[0].colour", "unknown key"),
        ({"at": "yesterday"}, "tests[0].at", "RFC 3339"),
        ({"at": 5}, "tests[0].at", "RFC 3339"),
        ({"at": "2026-01-05T09:00:00"}, "tests[0].at", "offset"),
        ({"at": "0001-01-05T09:00:00Z"}, "tests[0].at", "between"),
        ({"site": 5}, "tests[0].site", "slug"),
        ({"request": []}, "tests[0].request", "must be an object"),
        ({"request": {"colour": "red"}}, "tests[0].request['colour']", "unknown attribute"),
        ({"request": {"mac": "zz"}}, "tests[0].request['mac[0]']", "no"),
        ({"expect": {}}, "tests[0].expect", "at least one of"),
        ({"expect": {"colour": "red", "vlan": "1"}}, "tests[0].expect.colour", "unknown key"),
        ({"expect": {"verdict": "maybe"}}, "tests[0].expect.verdict", "must be one of"),
        ({"expect": {"verdict": ["permit"]}}, "tests[0].expect.verdict", "must be one of"),
        ({"expect": {"rule": "nobody"}}, "tests[0].expect.rule", "unknown rule 'nobody'"),
        ({"expect": {"vlan": 20}}, "tests[0].expect.vlan", "in quotes"),
        ({"expect": {"reply": {}}}, "tests[0].expect.reply", "must be a list"),
        ({"expect": {"reply": [{"attribute": "Class"}]}}, "tests[0].expect.reply[0]", "must have attribute and value"),
        (
            {"expect": {"reply": [{"attribute": "Class", "value": "1", "tag": True}]}},
            "tests[0].expect.reply[0].tag",
            "0 to 31",
        ),
        (
            {"expect": {"reply": [{"attribute": "Class", "value": "1", "operator": "="}]}},
            "tests[0].expect.reply[0].operator",
            "must be",
        ),
    ],
)
def test_error_is_reported_with_its_position(change, place, message):
    compile_policy(policy_with(GOOD))
    found = mistakes(policy_with(GOOD | change))
    assert list(found) == [place]
    assert message in found[place] or message == "no"


def test_all_errors_of_tests_and_rules_are_reported_together():
    document = policy_with({"name": "a"}, 5, GOOD, GOOD)
    document["rules"].append({"id": "s"})
    assert list(mistakes(document)) == ["rules[1]", "tests[0]", "tests[1]", "tests[3].name"]


def test_may_name_a_rule_that_has_errors():
    document = policy_with(GOOD | {"expect": {"rule": "s"}})
    document["rules"].append({"id": "s", "name": "S", "when": {}, "then": {"verdict": "permit"}})
    assert list(mistakes(document)) == ["rules[1].when"]


def test_number_of_tests_is_limited():
    tests = [GOOD | {"name": str(number)} for number in range(MAX_TESTS + 1)]
    assert len(compile_policy(policy_with(*tests[1:])).tests) == MAX_TESTS
    assert "the limit is" in mistakes(policy_with(*tests))["tests"]
    assert mistakes({"tests": {}})["tests"].startswith("must be a list")


def test_moment_is_parsed_to_the_second():
    assert parse_moment("1970-01-01T00:00:01.9Z") == 1
