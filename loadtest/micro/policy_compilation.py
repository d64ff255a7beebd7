"""Seconds to compile a large tenant's policies, and the cost of conditions:
`python -m loadtest.micro.policy_compilation`.

The data set has the size of the largest that is published: 2,750 policies with 13,750 rules (UK Ministry of Justice).
The cell compiles what was checked when it was saved; saving also looks for rules that are never reached.
"""

import json
import timeit
from time import process_time

from nac.engine import PolicyRequest, compile_policy, decide

POLICIES = 2_750
RULES = 5
_CALLS = 20_000
_MONDAY_NOON = 1_767_614_400

_COMPARED: dict[str, tuple[str, object]] = {
    "equals": ("certificate.common_name", "pc-0042.corp.example"),
    "starts_with": ("certificate.common_name", "pc-"),
    "in_domain": ("certificate.san.dns", ["lab.example", "corp.example"]),
    "in_network": ("nas.address", ["10.0.0.0/8", "192.0.2.0/24", "2001:db8::/32"]),
    "matches": ("certificate.common_name", r"^pc-[0-9]{4}\.corp\.example$"),
    "between": ("radius.NAS-Port", [1, 48]),
    "within": ("time", {"days": ["mon", "tue"], "from": "08:00", "to": "18:00"}),
}
_ASKED: dict[str, tuple[str | int | bool, ...]] = {
    "certificate.common_name": ("pc-0042.corp.example",),
    "certificate.san.dns": ("pc-0042.corp.example",),
    "nas.address": ("192.0.2.7",),
    "radius.NAS-Port": ("12",),
}


def document(number: int) -> dict[str, object]:
    return {"rules": [_rule(number, index) for index in range(RULES)], "fallback": {"verdict": "deny"}}


def _rule(number: int, index: int) -> dict[str, object]:
    when = [
        {"attribute": "method", "operator": "equals", "value": "eap-tls"},
        {"attribute": "radius.NAS-Identifier", "operator": "equals", "value": f"switch-{number}-{index}"},
    ]
    reply = [{"attribute": "Filter-Id", "value": f"acl-{number}"}]
    then = {"verdict": "permit", "vlan": str(100 + index), "reply": reply}
    return {"id": f"r{index}", "name": f"Rule {index}", "when": {"all": when}, "then": then}


def _seconds(texts: list[str], *, refuse_unreachable: bool) -> float:
    started = process_time()
    for text in texts:
        compile_policy(json.loads(text), time_zone="Europe/London", refuse_unreachable=refuse_unreachable)
    return process_time() - started


def _nanoseconds(operator: str, attribute: str, value: object) -> float:
    when = {"attribute": attribute, "operator": operator, "value": value}
    then = {"verdict": "permit"}
    rules = [{"id": "r", "name": "r", "when": when, "then": then}]
    policy = compile_policy({"rules": rules}, time_zone="Europe/London")
    asked = PolicyRequest(_ASKED, _MONDAY_NOON)
    if not decide(policy, asked).permitted:
        raise SystemExit(f"{operator} does not hold")
    return min(timeit.repeat(lambda: decide(policy, asked), number=_CALLS, repeat=5)) / _CALLS * 1e9


def main() -> None:
    texts = [json.dumps(document(number)) for number in range(POLICIES)]
    print(f"{POLICIES} policies with {POLICIES * RULES} rules")
    print(f"  in the cell  {_seconds(texts, refuse_unreachable=False):5.2f} s of CPU")
    print(f"  when saved   {_seconds(texts, refuse_unreachable=True):5.2f} s of CPU")
    print("a policy of one comparison that holds, decision and all")
    for operator, (attribute, value) in _COMPARED.items():
        print(f"  {operator:12} {_nanoseconds(operator, attribute, value):5.0f} ns")


if __name__ == "__main__":
    main()
