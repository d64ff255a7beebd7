"""Tests that a policy contains. They must pass before the policy is published."""

import pytest

from nac.policies import service as policies
from nac.policies import site_settings
from nac.policies.service import InvalidPolicy, PolicyTestsFailed
from nac.tenancy import sites
from tests.policies.documents import good

PRINTER = {"method": "mab", "endpoint.group": ["printers"]}


def with_tests(*tests, **sections):
    return good() | {"tests": list(tests)} | sections


def case(name="printers come in", request=PRINTER, expect=None, **more):
    return {"name": name, "request": request, "expect": expect or {"verdict": "permit", "rule": "r"}} | more


MET = [
    {"verdict": "permit"},
    {"rule": "r"},
    {"reason": "rule-permitted"},
    {"vlan": "20"},
    {"monitored": False},
    {"reply": [{"attribute": "tunnel-private-group-id", "tag": 1, "value": "20"}]},
    {"reply": [{"attribute": "Tunnel-Type", "tag": 1, "value": "VLAN", "operator": ":="}]},
]
UNMET = [
    ({"verdict": "deny"}, "verdict: expected deny, got permit"),
    ({"rule": ""}, "rule: expected none, got r"),
    ({"reason": "fallback-denied"}, "reason: expected fallback-denied, got rule-permitted"),
    ({"vlan": "21"}, "vlan: expected 21, got 20"),
    ({"vlan": ""}, "vlan: expected none, got 20"),
    ({"monitored": True}, "monitored: expected yes, got no"),
    ({"reply": [{"attribute": "Session-Timeout", "value": "60"}]}, "reply: expected Session-Timeout 60, got Tunnel"),
    (
        {"reply": [{"attribute": "tunnel-private-group-id", "tag": 1, "value": "20", "operator": "+="}]},
        "reply: expected tunnel-private-group-id:1 += 20",
    ),
]


def test_unmet_expectation_reports_result_and_reason(as_tenant):
    met = [case(f"met {number}", expect=expect) for number, expect in enumerate(MET)]
    unmet = [case(f"unmet {number}", expect=expect) for number, (expect, _) in enumerate(UNMET)]
    results = as_tenant(policies.run_document_tests, document=with_tests(*met, *unmet))
    for number, result in enumerate(results[: len(MET)]):
        assert (result.passed, result.why, str(result)) == (True, "", f"met {number}: passed")
    for result, (_, came) in zip(results[len(MET) :], UNMET, strict=True):
        assert not result.passed
        assert came in str(result)
        assert "Rule 'By group' (r) matched: endpoint.group equals 'printers' holds, seen 'printers'." in str(result)


def test_expected_rule_reports_why_it_did_not_match(as_tenant):
    other = case(request={"endpoint.group": ["phones"]})
    (result,) = as_tenant(policies.run_document_tests, document=with_tests(other))
    assert "None of 1 rule matched, so the fallback decided." in result.why
    assert "Rule 'By group' (r) did not match: endpoint.group equals 'printers' fails, seen 'phones'." in result.why
    later = good()["rules"][0] | {"id": "late", "when": {"attribute": "method", "operator": "equals", "value": "mab"}}
    rules = [*good()["rules"], later]
    (result,) = as_tenant(policies.run_document_tests, document=with_tests(case(expect={"rule": "late"}), rules=rules))
    assert "Rule 'late' was not evaluated: 'r' matched first." in result.why


def test_failing_tests_block_publish_and_are_all_reported(as_tenant, do, publish):
    publish(good())
    failing = with_tests(case(), case("a", expect={"vlan": "1"}), case("b", expect={"verdict": "deny"}))
    do(policies.save_draft, slug="main", document=failing)
    with pytest.raises(PolicyTestsFailed) as caught:
        do(policies.publish_policy, slug="main")
    assert [failure.test.name for failure in caught.value.failures] == ["a", "b"]
    assert "2 tests of the policy fail" in str(caught.value)
    assert as_tenant(policies.require_by_slug, slug="main").published_version == 1


def test_failing_test_of_an_old_version_blocks_rollback(as_tenant, do, publish):
    """The test passed when the version was published. The site's fallback has changed since."""
    unknown = case(request={"endpoint.known": False}, expect={"verdict": "deny"}, site="main")
    publish(with_tests(unknown))
    publish(good())
    as_tenant(set_fallback, slug="main", fallback={"verdict": "permit", "vlan": "99"})
    with pytest.raises(PolicyTestsFailed, match="verdict: expected deny, got permit"):
        do(policies.roll_back_policy, slug="main", number=1)
    assert as_tenant(policies.require_by_slug, slug="main").published_version == 2


def set_fallback(session, *, tenant_id, slug, fallback):
    sites.require_by_slug(session, tenant_id=tenant_id, slug=slug).fallback = fallback


def test_site_of_a_test_applies_its_fallback(as_tenant):
    as_tenant(set_fallback, slug="main", fallback={"verdict": "permit", "vlan": "99"})
    elsewhere = case("without a site", request={"endpoint.known": False}, expect={"verdict": "deny", "rule": ""})
    there = case("there", request={"endpoint.known": False}, expect={"verdict": "permit", "vlan": "99"}, site="main")
    results = as_tenant(policies.run_document_tests, document=with_tests(elsewhere, there))
    assert [result.unmet for result in results] == [(), ()]


def test_monitor_mode_of_rule_and_site_can_be_expected(as_tenant, do):
    tried_out = with_tests(
        case(expect={"verdict": "deny", "monitored": True}),
        case("in force", expect={"monitored": False}),
        rules=[good()["rules"][0] | {"then": {"verdict": "deny"}, "monitor": True}],
    )
    results = as_tenant(policies.run_document_tests, document=tried_out)
    assert [[str(unmet) for unmet in result.unmet] for result in results] == [[], ["monitored: expected no, got rule"]]
    do(site_settings.update_site, slug="main", monitor=True)
    (there,) = as_tenant(
        policies.run_document_tests, document=with_tests(case(expect={"monitored": True}, site="main"))
    )
    assert there.passed


def test_unknown_site_or_reason_is_rejected_on_save(do):
    do(policies.create_policy, slug="main")
    document = with_tests(
        case(site="mars"), case("b", expect={"reason": "mood"}), case("c", site=["main"]), case("d", expect=5)
    )
    with pytest.raises(InvalidPolicy) as caught:
        do(policies.save_draft, slug="main", document=document)
    assert {mistake.place for mistake in caught.value.mistakes} == {
        "tests[0].site",
        "tests[1].expect.reason",
        "tests[2].site",
        "tests[3].expect",
    }
