"""Policies checked against the dictionaries of radiusd."""

import pytest

from nac.engine import PolicyErrors, compile_outcome, compile_policy
from nac.vendors import find_vendor


def mistakes(document, dictionary):
    with pytest.raises(PolicyErrors) as caught:
        compile_policy(document, replies=dictionary)
    return {mistake.place: mistake.message for mistake in caught.value.mistakes}


def test_policy_mistakes_and_dictionary_mistakes_come_in_one_answer(dictionary):
    found = mistakes(
        {
            "rules": [
                {
                    "id": "r",
                    "name": "r",
                    "when": {"all": [
                        {"attribute": "radius.NAS-Prot", "operator": "exists"},
                        {"attribute": "ssid", "operator": "is", "value": "x"},
                    ]},
                    "then": {"verdict": "permit", "reply": [
                        {"attribute": "Session-Timeout", "value": "soon"},
                        {"attribute": "Session-Timeout"},
                        {"attribute": "Auth-Type", "value": "Accept"},
                        {"attribute": "Filter-Id", "value": "ok", "tag": 1},
                    ]},
                }
            ]
        },
        dictionary,
    )  # fmt: skip
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


def test_reply_beyond_the_room_of_a_packet_is_refused(dictionary):
    def outcome(count):
        reply = [{"attribute": "Filter-Id", "operator": "+=", "value": "x" * 253} for _ in range(count)]
        return compile_outcome({"verdict": "permit", "reply": reply}, replies=dictionary)

    assert len(outcome(14).results.reply) == 14
    with pytest.raises(PolicyErrors, match="3825 octets"):
        outcome(15)
