"""Errors of the policy compiler: one result lists all of them, each with its position."""

import gc
import weakref

import pytest

from nac.engine import PolicyErrors, compile_outcome, compile_policy, parse_policy_text
from tests.engine.builders import DENY, PERMIT, compare, mistakes, pinned, policy_of, rule
from tests.engine.invalid_conditions import MALFORMED, MEANINGLESS, SSID


def test_every_error_is_reported_at_its_position():
    found = mistakes(
        {
            "pinned_denies": [{"id": "p", "name": "p", "when": SSID, "then": PERMIT}],
            "rules": [
                rule("a b", {"any": [compare("colour", "equals", "red"), compare("mac", "equals", "zz")]}),
                rule("b", compare("ssid", "is", "x"), {"verdict": "maybe"}),
                rule("c", {"all": [{"not": compare("endpoint.known", "equals", "yes")}]}, {**DENY, "vlan": "20"}),
                {"id": "d", "when": SSID, "then": PERMIT},
                "rule",
            ],
            "fallback": {"verdict": "permit", "vlan": "4095", "reply": [{"attribute": "X", "value": 5, "tag": 32}]},
            "colour": 1,
        }
    )
    assert found.keys() == {
        "pinned_denies[0].then",
        "rules[0].id",
        "rules[0].when.any[0].attribute",
        "rules[0].when.any[1].value",
        "rules[1].when.operator",
        "rules[1].then.verdict",
        "rules[2].when.all[0].not.value",
        "rules[2].then.vlan",
        "rules[3]",
        "rules[4]",
        "fallback.vlan",
        "fallback.reply[0].value",
        "fallback.reply[0].tag",
        "colour",
    }


def test_incomplete_rule_is_checked_as_far_as_it_goes():
    found = mistakes(
        {
            "pinned_denies": [{"id": "p", "when": compare("colour", "equals", "red")}],
            "rules": [{"name": " ", "then": {**PERMIT, "vlan": "4095"}}],
        }
    )
    assert found.keys() == {
        "pinned_denies[0]",
        "pinned_denies[0].when.attribute",
        "rules[0]",
        "rules[0].name",
        "rules[0].then.vlan",
    }


@pytest.mark.parametrize(("condition", "place", "words"), [*MALFORMED, *MEANINGLESS])
def test_invalid_condition_is_rejected_with_a_remedy(condition, place, words):
    found = mistakes(policy_of(rule("r", condition)))
    where = f"rules[0].when.{place}".rstrip(".")
    assert list(found) == [where]
    assert words in found[where]


@pytest.mark.parametrize(
    ("earlier", "later"),
    [
        ({"all": []}, SSID),
        ({"any": [SSID, {"not": SSID}]}, compare("mac", "exists")),
        (SSID, SSID),
        (SSID, {"all": [{"any": [SSID]}]}),
        (SSID, {"not": {"not": SSID}}),
        (SSID, compare("ssid", "one_of", ["corp"])),
        (SSID, {"all": [compare("mac", "exists"), SSID]}),
        ({"any": [SSID, compare("mac", "exists")]}, {"any": [compare("mac", "exists"), SSID, SSID]}),
        (compare("mac", "equals", "AA-BB-CC-DD-EE-FF"), compare("mac", "equals", "aabb.ccdd.eeff")),
        (compare("mac", "starts_with", "00:11:22"), compare("mac", "starts_with", "00:11:22:33")),
        (compare("mac", "starts_with", "00:11:22"), compare("mac", "equals", "00:11:22:33:44:55")),
        (compare("ssid", "ends_with", "-guest"), compare("ssid", "one_of", ["a-guest", "b-guest"])),
        (compare("ssid", "contains", "gue"), compare("ssid", "ends_with", "-guest")),
        (compare("ssid", "exists"), compare("ssid", "contains", "x")),
        (compare("ssid", "matches", "^c.r"), SSID),
        ({**compare("ssid", "starts_with", "CO"), "ignore_case": True}, compare("ssid", "starts_with", "Corp")),
        (
            compare("certificate.san.dns", "in_domain", "Example"),
            compare("certificate.san.dns", "in_domain", "a.example"),
        ),
        (
            compare("nas.address", "in_network", "10.0.0.0/8"),
            compare("nas.address", "in_network", ["10.1.0.0/16", "10.2.3.4"]),
        ),
        (compare("nas.address", "in_network", "2001:db8::/32"), compare("nas.address", "equals", "2001:db8::1")),
        (compare("radius.NAS-Port", "at_least", 10), compare("radius.NAS-Port", "between", [10, 20])),
        (compare("radius.NAS-Port", "greater_than", 9), compare("radius.NAS-Port", "one_of", [10, 12])),
        (
            compare("session.count.user", "between", [3, 9]),
            {"all": [compare("session.count.user", "at_least", 3), compare("session.count.user", "less_than", 10)]},
        ),
        ({"not": compare("ssid", "starts_with", "lab")}, SSID),
        ({"not": SSID}, {"not": compare("ssid", "starts_with", "c")}),
        (
            {"not": {"all": [SSID, compare("mac", "exists")]}},
            {"all": [{"not": SSID}, compare("tls.resumed", "exists")]},
        ),
        (
            {"any": [compare("ssid", "starts_with", "c"), compare("mac", "exists")]},
            {"any": [SSID, compare("mac", "starts_with", "00")]},
        ),
        (
            compare("time", "within", {"from": "08:00", "to": "18:00"}),
            compare("time", "within", {"days": ["mon"], "from": "09:00", "to": "12:00"}),
        ),
    ],
)
def test_rule_covered_by_an_earlier_one_is_unreachable(earlier, later):
    assert list(mistakes(policy_of(rule("a", earlier), rule("b", later)))) == ["rules[1]"]
    assert list(mistakes(policy_of(rule("b", later), pinned_denies=[pinned("a", earlier)]))) == ["rules[0]"]


@pytest.mark.parametrize(
    ("earlier", "later"),
    [
        (SSID, {"all": []}),
        ({"all": [SSID, compare("mac", "exists")]}, SSID),
        (
            {"all": [compare("endpoint.group", "equals", "a"), compare("endpoint.group", "equals", "b")]},
            compare("endpoint.group", "equals", "a"),
        ),
        # An attribute with several values may equal one value and differ from another value.
        ({"not": compare("endpoint.group", "equals", "a")}, compare("endpoint.group", "equals", "b")),
        (
            compare("radius.X", "between", [5, 6]),
            {"all": [compare("radius.X", "at_least", 5), compare("radius.X", "at_most", 6)]},
        ),
        # "07" equals the number 7 but is another text.
        (compare("mdm.x", "equals", "7"), compare("mdm.x", "equals", 7)),
        (
            compare("time", "within", {"from": "08:00", "to": "18:00"}),
            compare("time", "within", {"from": "17:00", "to": "07:00"}),
        ),
    ],
)
def test_possibly_reachable_rule_is_accepted(earlier, later):
    assert len(compile_policy(policy_of(rule("a", earlier), rule("b", later))).rules) == 2


def test_duplicate_id_error_names_the_first_use():
    found = mistakes(policy_of(rule("a", SSID), pinned_denies=[pinned("a", compare("mac", "exists"))]))
    assert found == {"rules[0].id": "the id 'a' is already used by pinned_denies[0]"}


def test_policy_at_each_limit_is_accepted():
    many = [rule(f"r{index}", compare("ssid", "equals", f"s{index}")) for index in range(501)]
    assert len(compile_policy(policy_of(*many[:500])).rules) == 500
    assert "rules" in mistakes(policy_of(*many))

    wide = [compare("ssid", "equals", f"s{index}") for index in range(2000)]
    compile_policy(policy_of(rule("r", {"any": wide[:1999]})))
    assert list(mistakes(policy_of(rule("r", {"any": wide})))) == ["rules[0].when.any[1999]"]

    deep = SSID
    for _ in range(9):
        deep = {"not": deep}
    compile_policy(policy_of(rule("r", deep)))
    assert list(mistakes(policy_of(rule("r", {"not": deep})))) == ["rules[0].when" + ".not" * 10]

    large = policy_of(rule("r", compare("ssid", "one_of", ["x" * 1000] * 263)))
    assert "256 kB" in mistakes(large)[""]


def test_reply_errors_have_a_remedy():
    reply = [
        {"attribute": "Filter-Id", "value": "a"},
        {"attribute": "filter-id", "value": "b"},
        {"attribute": "Tunnel-Type", "value": "VLAN", "tag": 2},
        {"attribute": "Tunnel-Type:1", "value": "VLAN"},
        {"attribute": "X", "value": "1", "operator": "="},
        {"attribute": "X", "value": ""},
    ]
    found = mistakes({"fallback": {"verdict": "permit", "vlan": "20", "reply": reply}})
    assert found.keys() == {
        "fallback.reply[1].operator",
        "fallback.reply[2].attribute",
        "fallback.reply[3].attribute",
        "fallback.reply[4].operator",
        "fallback.reply[5].value",
    }


@pytest.mark.parametrize("vlan", ["0", "4095", "020", "٣", "a\nb", " x", "x" * 33, 20, "", ["20"]])
def test_invalid_vlan_is_rejected(vlan):
    assert list(mistakes({"fallback": {"verdict": "permit", "vlan": vlan}})) == ["fallback.vlan"]


@pytest.mark.parametrize("vlan", ["1", "4094", "guests", "Büro"])
def test_vlan_by_id_or_name_is_accepted(vlan):
    assert compile_outcome({"verdict": "permit", "vlan": vlan}).results.vlan == vlan


def test_text_that_postgresql_cannot_store_is_rejected():
    found = mistakes(
        policy_of(rule("r", compare("ssid", "equals", "a\0")), fallback={"verdict": "permit", "vlan": "\ud800"})
    )
    assert found.keys() == {"rules[0].when.value", "fallback.vlan"}


def test_policy_text_is_parsed_strictly():
    assert parse_policy_text(b'{"rules": []}') == {"rules": []}
    for text in ("{", '{"a": 1, "a": 2}', "[" * 100_000, b"\xff", "x" * 300_000, '{"rules":', "9" * 5_000):
        with pytest.raises(PolicyErrors):
            parse_policy_text(text)
    with pytest.raises(PolicyErrors, match="line 2, column 6"):
        parse_policy_text('{\n "a" 1}')


def test_deep_nesting_is_rejected_quickly():
    deep: list = []
    for _ in range(100_000):
        deep = [deep]
    assert "nested deeper" in mistakes({"rules": deep})[""]


def test_empty_policy_denies():
    policy = compile_policy({})
    assert policy.fallback.verdict == "deny"
    assert policy.decisions.of((), -1).reason == "fallback-denied"


@pytest.mark.parametrize("pattern", ["(ab+)*", "(a+,)+", r"(\d+\.){3}\d+", "a+b", r"\(a+\)+", "(a{2,3})+", "(a|b+)+"])
def test_nested_repetition_is_accepted(pattern):
    assert compile_policy(policy_of(rule("r", compare("ssid", "matches", pattern)))).rules


def test_policies_with_the_same_structure_share_code():
    one, two = (
        compile_policy(policy_of(rule("r", {"all": [SSID, compare("nas.name", "equals", name)]}))) for name in "ab"
    )
    assert one.first is not two.first
    assert one.first.__code__ is two.first.__code__
    assert (one.first({"ssid": ("corp",), "nas.name": ("a",)}), two.first({"ssid": ("corp",), "nas.name": ("a",)})) == (
        0,
        -1,
    )


def test_dropped_policy_is_freed_without_garbage_collection():
    """Cells exclude compiled policies from Python's garbage collector, so a reference cycle would never be freed."""
    gc.collect()
    gc.disable()
    try:
        policy = compile_policy(
            policy_of(rule("r", {"any": [SSID, {"not": compare("mac", "one_of", ["020000000001"])}]}))
        )
        first = weakref.ref(policy.first)
        del policy
        assert first() is None
    finally:
        gc.enable()
