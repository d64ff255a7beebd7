"""Policy evaluation: checks, simulations, replays and invalid requests."""

import httpx
from jsonschema import Draft202012Validator

from nac.engine import compile_policy
from tests.api.v1.test_policies import HERE, document, mistakes, publish

SIMULATE, REPLAY, CHECK = (f"{HERE}/policy-{what}" for what in ("simulations", "replays", "checks"))


def test_simulation_returns_the_full_explanation(api: httpx.Client) -> None:
    publish(api, document())
    api.post(f"{HERE}/endpoints", json={"mac": "00:00:5e:00:53:01", "name": "Printer"})
    request = {"method": "mab", "mac": "00:00:5e:00:53:01", "NAS-Identifier": "switch-1"}
    told = api.post(SIMULATE, json={"policy": "office", "request": request}).json()
    assert (told["verdict"], told["vlan"], told["rule"], told["version"]) == ("permit", "20", "printers", 1)
    when = {"attribute": "method", "operator": "equals", "value": "mab"}
    assert told["trace"][0]["because"][0] == {"place": "rules[0].when", "seen": ["mab"], "matched": True, **when}
    assert told["request"]["endpoint.known"] == [True]
    assert "endpoint.known" in told["filled"]
    assert any("not registered" in note for note in told["notes"])
    assert told["recorded"] is None
    policy_only = api.post(SIMULATE, json={"document": document("30"), "request": request, "policy_only": True}).json()
    assert (policy_only["vlan"], policy_only["filled"], policy_only["version"]) == ("30", [], None)


def test_request_and_document_errors_are_listed_together(api: httpx.Client) -> None:
    wrong = document()
    wrong["rules"][0]["when"]["operator"] = "resembles"
    answer = api.post(SIMULATE, json={"document": wrong, "request": {"method": "mab", "colour": "red"}})
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid-simulation")
    assert set(mistakes(answer)) == {"request.colour", "policy.rules[0].when.operator"}


def test_check_lists_unsupported_vendor_features(api: httpx.Client) -> None:
    acl = document()
    acl["rules"][0]["then"]["downloadable_acl"] = ["permit ip any any"]
    told = api.post(CHECK, json={"document": acl}).json()
    assert (told["rules"], told["tests"], told["fallback"]) == (1, 0, "deny")
    assert told["notes"]
    assert api.post(CHECK, json={"document": document()}).json()["notes"] == []


def test_attributes_and_schema_match_the_engine(api: httpx.Client) -> None:
    attributes = {each["attribute"]: each for each in api.get(f"{HERE}/policy-attributes").json()["items"]}
    assert "equals" in attributes["method"]["operators"]
    schema = api.get(f"{HERE}/policy-schema").json()
    assert list(Draft202012Validator(schema).iter_errors(document())) == []
    assert compile_policy(document()).rules


def test_invalid_requests_are_rejected_with_their_path(api: httpx.Client) -> None:
    for path, body, place in (
        (SIMULATE, {}, "request"),
        (SIMULATE, {"request": {}, "decision": "x"}, "request"),
        (SIMULATE, {"request": {}, "at": "tomorrow"}, "at"),
        (SIMULATE, {"request": {}, "at": "9999-12-31T23:59:59Z"}, "at"),
        (SIMULATE, {"request": []}, "request"),
        (SIMULATE, {"request": {}, "extra": 1}, "extra"),
        (SIMULATE, {"request": {"a" * 200: 1}, "document": {}}, f"request.{'a' * 128}"),
        (SIMULATE, {"request": {"method": {"x": [[]]}}, "document": {}}, "request.method[0]"),
        (REPLAY, {"days": 0}, "days"),
        (REPLAY, {"days": 367}, "days"),
        (REPLAY, {"days": 1, "against": "me"}, "against"),
        (REPLAY, {"days": 1, "document": {"rules": 1}}, "rules"),
        (CHECK, {"document": {"a": [{"b": [{}]}]}}, "a"),
        (CHECK, {"document": {"rules": "x" * 300_000}}, ""),
    ):
        answer = api.post(path, json=body)
        assert answer.status_code == 422, answer.text
        assert place in (*mistakes(answer), answer.json().get("place", "-")), answer.text


def test_unknown_decision_is_not_found(api: httpx.Client) -> None:
    publish(api, document())
    for decision in ("x", "1-2", "\0", "9" * 90):
        answer = api.post(SIMULATE, json={"decision": decision})
        assert answer.status_code in (404, 422), answer.text
