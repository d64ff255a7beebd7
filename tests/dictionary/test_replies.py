"""Reply attributes of policies, checked against the dictionaries of radiusd."""

import pytest

from nac.engine import PolicyErrors, compile_outcome
from nac.engine.vendors import find_vendor
from tests.engine.builders import compare, mistakes, policy_of, rule


def test_policy_and_dictionary_errors_are_listed_together(dictionary):
    when = {"all": [compare("radius.NAS-Prot", "exists"), compare("ssid", "is", "x")]}
    reply = [
        {"attribute": "Session-Timeout", "value": "soon"},
        {"attribute": "Session-Timeout"},
        {"attribute": "Auth-Type", "value": "Accept"},
        {"attribute": "Filter-Id", "value": "ok", "tag": 1},
    ]
    found = mistakes(policy_of(rule("r", when, {"verdict": "permit", "reply": reply})), replies=dictionary)
    assert found.keys() == {
        "rules[0].when.all[0].attribute",
        "rules[0].when.all[1].operator",
        "rules[0].then.reply[0]",
        "rules[0].then.reply[1].value",
        "rules[0].then.reply[2]",
        "rules[0].then.reply[3]",
    }


def test_good_policy_compiles_against_the_dictionary(dictionary):
    reply = [
        {"attribute": "Session-Timeout", "value": "3600"},
        {"attribute": "Cisco-AVPair", "value": "a=b\\c"},
        {"attribute": "Cisco-AVPair", "operator": "+=", "value": "c=d"},
    ]
    outcome = compile_outcome({"verdict": "permit", "vlan": "20", "reply": reply}, replies=dictionary)
    assert ("Cisco-AVPair", ":=", "a=b\\\\c") in find_vendor("").render(outcome.results).pairs()


def test_reply_larger_than_a_packet_is_rejected(dictionary):
    def outcome(count):
        reply = [{"attribute": "Filter-Id", "operator": "+=", "value": "x" * 253} for _ in range(count)]
        return compile_outcome({"verdict": "permit", "reply": reply}, replies=dictionary)

    assert len(outcome(14).results.reply) == 14
    with pytest.raises(PolicyErrors, match="3825 octets"):
        outcome(15)


def of_permit(dictionary, **results):
    with pytest.raises(PolicyErrors) as caught:
        compile_outcome({"verdict": "permit", **results}, place="", replies=dictionary)
    return {mistake.place.lstrip("."): mistake.message for mistake in caught.value.mistakes}


def test_entry_too_long_for_the_vendor_attribute_is_rejected(dictionary):
    room = 247 - len("ip:inacl#10=permit ")
    compile_outcome({"verdict": "permit", "downloadable_acl": ["permit " + "x" * room]}, replies=dictionary)
    found = of_permit(dictionary, downloadable_acl=["permit " + "x" * (room + 1)])
    assert list(found) == ["downloadable_acl"]
    assert found["downloadable_acl"].endswith("(RFC 2865 5) (cisco)")


def test_entries_beyond_one_vendor_packet_are_rejected(dictionary):
    """Each attribute of Cisco uses 21 octets for its header, name and number."""
    entries = [f"permit tcp any host 192.0.2.{number} eq 443" for number in range(1, 70)]
    compile_outcome({"verdict": "permit", "downloadable_acl": entries[:60]}, replies=dictionary)
    found = of_permit(dictionary, downloadable_acl=entries)
    assert list(found) == ["downloadable_acl"]
    assert "the limit of a reply is 3596 (RFC 2865 3) (cisco)" in found["downloadable_acl"]


def test_total_size_error_names_the_largest_entry(dictionary):
    reply = [{"attribute": "Filter-Id", "operator": "+=", "value": "x" * 253} for _ in range(14)]
    compile_outcome({"verdict": "permit", "reply": reply}, replies=dictionary)
    assert list(of_permit(dictionary, reply=reply, vlan="x" * 32, session_timeout=60)) == ["reply"]


def test_future_passphrase_is_counted(dictionary):
    reply = [{"attribute": "Class", "operator": "+=", "value": "0x" + "01" * 253} for _ in range(13)]
    reply.append({"attribute": "Class", "operator": "+=", "value": "0x" + "01" * 200})
    compile_outcome({"verdict": "permit", "reply": reply}, replies=dictionary)
    assert list(of_permit(dictionary, reply=reply, psk="endpoint")) == ["reply"]


def test_profile_is_checked_against_the_dictionaries_too(dictionary):
    found = mistakes(
        {"profiles": {"p": {"acl": "x" * 128, "reply": [{"attribute": "Sesion-Timeout", "value": "1"}]}}},
        replies=dictionary,
    )
    assert found.keys() == {"profiles.p.reply[0]"}
    assert "did you mean Session-Timeout" in found["profiles.p.reply[0]"]
