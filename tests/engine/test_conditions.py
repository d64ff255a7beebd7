"""Conditions: each match beside a near miss."""

from tests.engine.builders import ask, compare, matches, policy_of, rule


def test_missing_attribute_fails_every_comparison():
    assert not matches(compare("ssid", "equals", "corp"))
    assert not matches(compare("ssid", "one_of", ["corp", "lab"]))
    assert not matches(compare("ssid", "starts_with", "c"))
    assert not matches(compare("ssid", "ends_with", "p"))
    assert not matches(compare("ssid", "contains", "or"))
    assert not matches(compare("ssid", "exists"))
    assert not matches(compare("mac.random", "equals", False))
    assert not matches(compare("radius.NAS-Port", "less_than", 9))


def test_negated_comparison_with_missing_attribute_holds():
    assert matches({"not": compare("ssid", "equals", "corp")})
    assert not matches({"all": [{"not": compare("ssid", "equals", "corp")}, compare("ssid", "exists")]})


def test_multiple_values_match_if_any_does():
    in_lab = compare("endpoint.group", "equals", "lab")
    assert matches(in_lab, endpoint__group=("a", "lab"))
    assert not matches({"not": in_lab}, endpoint__group=("a", "lab"))
    assert matches({"not": in_lab}, endpoint__group=("a", "b"))


def test_all_and_any_of_every_length():
    for count in range(1, 7):
        groups = [f"g{index}" for index in range(count)]
        parts = [compare("endpoint.group", "equals", group) for group in groups]
        assert matches({"all": parts}, endpoint__group=tuple(groups))
        assert not matches({"all": parts}, endpoint__group=tuple(groups[1:]))
        assert matches({"any": parts}, endpoint__group=(groups[-1],))
        assert not matches({"any": parts}, endpoint__group=("other",))
    assert matches({"all": []})


def test_nas_vendor_matches_any_of_its_aliases():
    for written in ("cisco", "Cisco", "IOS XE", "catalyst"):
        assert matches(compare("nas.vendor", "equals", written), nas__vendor="cisco")
        assert matches(compare("nas.vendor", "one_of", ["aruba", written]), nas__vendor="cisco")
        assert not matches(compare("nas.vendor", "equals", written), nas__vendor="cisco-wlc")
    assert matches(compare("nas.vendor", "equals", "Acme Switches"), nas__vendor="acme switches")
    assert matches(compare("nas.vendor", "starts_with", "CIS"), nas__vendor="cisco")


def test_boolean_is_not_a_number():
    assert matches(compare("tls.resumed", "equals", True), tls__resumed=True)
    assert not matches(compare("tls.resumed", "equals", True), tls__resumed=1)
    assert not matches(compare("tls.resumed", "equals", False), tls__resumed=0)
    assert not matches(compare("radius.X", "greater_than", 0), radius__X=True)


def test_value_of_another_type_does_not_match():
    for odd in (None, 1.5, b"corp", ["corp"], ("corp",), 7):
        assert not matches(compare("ssid", "equals", "corp"), ssid=(odd,))
        assert not matches(compare("ssid", "one_of", ["corp", "x"]), ssid=(odd,))
        assert not matches(compare("ssid", "contains", "c"), ssid=(odd,))
        assert not matches(compare("user.name", "equals", "corp"), user__name=(odd,))
        assert not matches(compare("user.name", "one_of", ["corp", "x"]), user__name=(odd,))


def test_request_with_a_wrong_type_is_denied_without_error():
    by_name = policy_of(rule("r", compare("user.name", "starts_with", "a")), fallback={"verdict": "permit"})
    from nac.engine import PolicyRequest, compile_policy, decide

    for broken in (None, 7):
        decision = decide(compile_policy(by_name), PolicyRequest({"user.name": broken}, 0))
        assert (decision.verdict, decision.reason) == ("deny", "internal-error")


def test_case_is_ignored_only_where_the_attribute_says_so():
    assert matches(compare("mac", "equals", "AA:BB:CC:DD:EE:FF"), mac="AABBCCDDEEFF")
    assert matches(compare("mac", "one_of", ["aabb.ccdd.eeff", "00-00-00-00-00-01"]), mac="aabbccddeeff")
    assert matches(compare("mac", "ends_with", "E:FF"), mac="aabbccddeeff")
    assert matches(compare("certificate.serial", "equals", "0A1B"), certificate__serial="0a1b")
    assert not matches(compare("endpoint.name", "equals", "Printer"), endpoint__name="printer")
    assert not matches(compare("endpoint.name", "one_of", ["Printer", "x"]), endpoint__name="printer")


def test_first_matching_rule_wins():
    deny = rule("deny", compare("ssid", "equals", "corp"), {"verdict": "deny"})
    permit = rule("permit", compare("identity", "starts_with", "anna"))

    assert ask(policy_of(deny, permit), ssid="corp", identity="anna").rule_id == "deny"
    assert ask(policy_of(permit, deny), ssid="corp", identity="anna").rule_id == "permit"
