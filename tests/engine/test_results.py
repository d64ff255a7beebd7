"""Results, profiles, quarantine and monitor mode in policies: invalid values, each with position and message."""

import pytest

from nac.engine import PolicyErrors, compile_outcome, compile_policy
from nac.engine.conditions import could_match
from tests.engine.builders import compare, decide_on, mistakes, pinned, policy_of, rule

WHEN = compare("method", "equals", "mab")


def of_permit(**results):
    """Errors of a rule's outcome, by their position in the outcome."""
    found = mistakes(policy_of(rule("r", WHEN, {"verdict": "permit", **results})))
    return {place.removeprefix("rules[0].then."): message for place, message in found.items()}


GOOD = {
    "acl": ["GUEST", "a b", "x" * 128],
    "role": ["staff", "Büro"],
    "session_timeout": [60, 2**31],
    "psk": ["endpoint"],
    "downloadable_acl": [
        ["permit ip any any"],
        {"entries": ["permit ip any any"]},
        {"entries": {"IOS": ["deny ip any any"]}},
    ],
}
BAD = {
    "acl": ["", 7, " x", "x ", "a\nb", "x" * 129, [], True],
    "role": ["", 7, "a\tb"],
    "session_timeout": [59, 2**31 + 1, -1, 0, "3600", True, 60.5, []],
    "reauthenticate": ["yes", 1, 0],
    "psk": ["", "secret", True, "Endpoint"],
    "downloadable_acl": ["permit ip any any", [], 7, {}, {"entries": []}, {"entries": {}}, ["x"] * 101],
}


@pytest.mark.parametrize(("key", "value"), [(key, value) for key, values in GOOD.items() for value in values])
def test_valid_value_is_accepted(key, value):
    compile_policy(policy_of(rule("r", WHEN, {"verdict": "permit", key: value})))


@pytest.mark.parametrize(("key", "value"), [(key, value) for key, values in BAD.items() for value in values])
def test_invalid_value_is_rejected_at_its_position(key, value):
    found = of_permit(**{key: value})
    assert {place.partition(".")[0].partition("[")[0] or key for place in found} <= {key, "rules"}, found


def test_errors_in_a_downloadable_acl_are_reported_one_by_one():
    entries = {"cisco": ["permit ip any any", ""], "acme": ["x"], "IOS": ["deny ip any any"]}
    found = of_permit(downloadable_acl={"name": "", "entries": entries, "colour": 1})
    assert found == {
        "downloadable_acl.colour": "unknown key; keys of a downloadable ACL: name, entries",
        "downloadable_acl.name": "must be a name on the NAS: text of 1 to 128 printable characters",
        "downloadable_acl.entries.cisco[1]": "must be one line of printable text, without spaces around it",
        "downloadable_acl.entries.acme": "unknown vendor; list vendors with `nas vendors`",
    }
    twice = {"cisco": ["permit ip any any"], "IOS": ["deny ip any any"]}
    assert of_permit(downloadable_acl={"entries": twice}) == {
        "downloadable_acl.entries.IOS": "cisco already has entries"
    }


def test_reauthentication_requires_a_session_timeout():
    assert list(of_permit(reauthenticate=True)) == ["reauthenticate"]
    compile_policy(policy_of(rule("r", WHEN, {"verdict": "permit", "reauthenticate": True, "session_timeout": 60})))
    compile_policy(policy_of(rule("r", WHEN, {"verdict": "permit", "reauthenticate": False})))


def test_acl_by_name_and_by_entries_exclude_each_other():
    assert list(of_permit(acl="A", downloadable_acl=["permit ip any any"])) == ["downloadable_acl"]


def test_reply_attribute_all_vendors_get_by_key_is_rejected():
    reply = [{"attribute": "session-timeout", "value": "60"}, {"attribute": "Tunnel-Type", "value": "VLAN"}]
    assert of_permit(vlan="20", session_timeout=60, reply=reply) == {
        "reply[0].attribute": "session_timeout already sets this attribute; use only one of the two",
        "reply[1].attribute": "vlan already sets this attribute; use only one of the two",
    }


def test_reply_attribute_some_vendors_get_by_key_is_allowed():
    reply = [{"attribute": "Aruba-User-Role", "value": "x"}]
    policy = compile_policy(policy_of(rule("r", WHEN, {"verdict": "permit", "role": "staff", "reply": reply})))
    assert decide_on(policy, method="mab", nas__vendor="hpe").reply == (
        ("HP-User-Role", ":=", "staff"),
        ("Aruba-User-Role", ":=", "x"),
    )
    assert decide_on(policy, method="mab", nas__vendor="aruba").reason == "result-not-supported"


def test_entries_that_no_vendor_supports_are_rejected():
    assert list(of_permit(downloadable_acl=["let everything through"])) == ["downloadable_acl"]


def test_profiles_are_validated_like_outcomes():
    found = mistakes({"profiles": {"a": {"vlan": "0", "verdict": "permit"}, "b": 7, " c": {}, "d": {"psk": 1}}})
    assert found.keys() == {"profiles.a.vlan", "profiles.a.verdict", "profiles.b", "profiles[' c']", "profiles.d.psk"}
    assert mistakes({"profiles": []}).keys() == {"profiles"}
    assert "the limit is 200" in mistakes({"profiles": {f"p{i}": {} for i in range(201)}})["profiles"]


@pytest.mark.parametrize("name", ["staff", 7, None, ["a"], {}])
def test_unknown_profile_is_rejected(name):
    document = {"profiles": {"guests": {}}, "rules": [rule("r", WHEN, {"verdict": "permit", "profile": name})]}
    if name is None:
        compile_policy(document)
    else:
        message = "must be the name of a profile of this policy: guests"
        assert mistakes(document) == {"rules[0].then.profile": message}


def test_conflict_of_profile_and_rule_is_reported_at_the_rule():
    document = {
        "profiles": {"named": {"acl": "A"}},
        "rules": [
            rule("r", WHEN, {"verdict": "permit", "profile": "named", "downloadable_acl": ["permit ip any any"]})
        ],
    }
    assert list(mistakes(document)) == ["rules[0].then.downloadable_acl"]


def test_quarantine_requires_its_profile():
    quarantine = policy_of(rule("r", WHEN, {"verdict": "quarantine"}))
    assert list(mistakes(quarantine)) == ["rules[0].then"]
    assert (
        decide_on(compile_policy(quarantine | {"profiles": {"quarantine": {}}}), method="mab").verdict == "quarantine"
    )
    named = policy_of(rule("r", WHEN, {"verdict": "quarantine", "profile": "x"}), profiles={"quarantine": {}})
    assert list(mistakes(named)) == ["rules[0].then.profile"]


def test_deny_has_no_results():
    for key, value in (("role", "x"), ("profile", "x"), ("session_timeout", 60), ("psk", "endpoint")):
        document = policy_of(rule("r", WHEN, {"verdict": "deny", key: value}))
        assert list(mistakes(document)) == [f"rules[0].then.{key}"]


def test_site_fallback_cannot_use_profiles():
    with pytest.raises(PolicyErrors, match="has no profile"):
        compile_outcome({"verdict": "permit", "profile": "staff"})
    with pytest.raises(PolicyErrors, match="must have a vlan"):
        compile_outcome({"verdict": "quarantine"})
    assert compile_outcome({"verdict": "quarantine", "vlan": "666"}).verdict == "quarantine"
    document = {"profiles": {"staff": {}}, "rules": []}
    assert list(mistakes(document, fallback={"verdict": "permit", "profile": "staff"})) == ["site.fallback.profile"]
    assert list(mistakes({}, fallback={"verdict": "permit", "vlan": "a\0"})) == ["site.fallback.vlan"]


@pytest.mark.parametrize("value", ["yes", 1, None, []])
def test_monitor_must_be_a_boolean(value):
    document = policy_of(rule("r", WHEN) | {"monitor": value})
    assert mistakes(document) == {"rules[0].monitor": "must be true or false"}
    assert list(mistakes({"pinned_denies": [pinned("p", WHEN) | {"monitor": True}]})) == ["pinned_denies[0].monitor"]


def test_equal_decisions_are_one_object_per_vendor():
    """The module caches replies by the identity of the decision."""
    policy = compile_policy(policy_of(rule("r", WHEN, {"verdict": "permit", "role": "staff"})))
    first = decide_on(policy, method="mab", nas__vendor="cisco")
    assert decide_on(policy, method="mab", nas__vendor="cisco") is first
    assert decide_on(policy, method="mab", nas__vendor="Cisco Systems") is first
    assert decide_on(policy, method="mab", nas__vendor="aruba") is not first
    # Each of the two vendors assigns a role by Filter-Id.
    assert decide_on(policy, method="mab", nas__vendor="meraki") is decide_on(
        policy, method="mab", nas__vendor="no such vendor"
    )


CISCO = compare("nas.vendor", "equals", "cisco")
ROLE = {"verdict": "permit", "role": "staff"}


@pytest.mark.parametrize(
    ("when", "possible"),
    [
        (CISCO, False),
        ({"not": CISCO}, True),
        ({"all": [WHEN, CISCO]}, False),
        ({"all": [WHEN, {"not": CISCO}]}, True),
        ({"any": [WHEN, CISCO]}, True),
        ({"any": [CISCO, compare("nas.vendor", "starts_with", "uni")]}, True),
        ({"not": {"any": [WHEN, {"not": CISCO}]}}, False),
        ({"not": {"all": [WHEN, CISCO]}}, True),
        (compare("nas.name", "equals", "core"), True),
    ],
)
def test_rule_that_cannot_match_at_a_nas_is_not_checked(when, possible):
    policy = compile_policy(policy_of(rule("r", when, ROLE)))
    known = {"nas.vendor": ("unifi",)}
    assert could_match(policy.rules[0].when, known) is possible
    assert [place for place, _ in policy.refusals(known)] == (["rules[0].then.role"] if possible else [])


def test_unsupported_results_are_reported_by_position():
    policy = compile_policy(
        {
            "pinned_denies": [pinned("p", compare("ssid", "equals", "x"))],
            "rules": [rule("a", WHEN), rule("b", compare("ssid", "exists"), ROLE)],
            "fallback": {"verdict": "permit", "acl": "A"},
        }
    )
    assert dict(policy.refusals({"nas.vendor": ("unifi",)})) == {
        "rules[1].then.role": "UniFi: roles by RADIUS are not supported; use vlan",
        "fallback.acl": "UniFi: ACLs by RADIUS are not supported; use a VLAN with its own rules",
    }
    assert dict(policy.refusals({})) == {}
