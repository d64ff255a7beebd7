"""Conditions in rules: each match next to a near miss."""

from tests.engine.builders import compare, matches, policy_of, rule


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
