"""Nanoseconds per decision of the policy engine: `python -m loadtest.micro.engine`.

The policy has 20 rules with two or three comparisons each, which is typical of a site. The request matches the first
rule, the last rule, or none. The result is the best of several rounds, because other work on the machine only slows
down a round.
"""

import json
import timeit

from nac.engine import Policy, PolicyRequest, compile_policy, decide

RULES = 20
_ROUNDS = 7
_CALLS = 20_000


def document(rules: int) -> dict[str, object]:
    return {
        "pinned_denies": [
            {"id": "stolen", "name": "Stolen", "when": _is("mac", "one_of", ["020000000001", "020000000002"])},
        ],
        "rules": [_rule(index) for index in range(rules)],
        "fallback": {"verdict": "deny"},
    }


def request(group: str) -> PolicyRequest:
    attributes: dict[str, tuple[str | int | bool, ...]] = {
        "method": ("mab",),
        "mac": ("0200000000aa",),
        "mac.random": (False,),
        "identity": ("0200000000aa",),
        "site.name": ("Head office",),
        "nas.name": ("sw-1",),
        "nas.address": ("192.0.2.1",),
        "nas.port_type": ("Ethernet",),
        "endpoint.known": (True,),
        "endpoint.name": ("printer",),
        "endpoint.group": ("floor-1", group),
    }
    return PolicyRequest(attributes, 0)


def _is(attribute: str, operator: str, value: object) -> dict[str, object]:
    return {"attribute": attribute, "operator": operator, "value": value}


def _rule(index: int) -> dict[str, object]:
    when = [_is("method", "equals", "mab"), _is("endpoint.group", "equals", f"group-{index}")]
    if index % 4 == 3:
        when.append({"not": _is("nas.name", "starts_with", "lab-")})
    reply = [{"attribute": "Session-Timeout", "value": "3600"}]
    then = {"verdict": "permit", "vlan": str(100 + index), "reply": reply}
    return {"id": f"r{index}", "name": f"Rule {index}", "when": {"all": when}, "then": then}


def _nanoseconds(policy: Policy, asked: PolicyRequest, *, trace: bool = False) -> float:
    calls = _CALLS // 10 if trace else _CALLS
    rounds = timeit.repeat(lambda: decide(policy, asked, trace=trace), number=calls, repeat=_ROUNDS)
    return min(rounds) / calls * 1e9


def main() -> None:
    policy = compile_policy(document(RULES))
    text = json.dumps(document(RULES))
    compiled = min(timeit.repeat(lambda: compile_policy(json.loads(text)), number=20, repeat=5)) / 20
    print(f"{RULES} rules, one pinned deny")
    print(f"  first rule matches  {_nanoseconds(policy, request('group-0')):8.0f} ns per decision")
    print(f"  last rule matches   {_nanoseconds(policy, request(f'group-{RULES - 1}')):8.0f} ns per decision")
    print(f"  fallback            {_nanoseconds(policy, request('other')):8.0f} ns per decision")
    print(f"  fallback, traced    {_nanoseconds(policy, request('other'), trace=True):8.0f} ns per decision")
    print(f"  compiling           {compiled * 1e6:8.0f} us per policy")
    largest = compile_policy(document(499))
    print(f"499 rules, fallback   {_nanoseconds(largest, request('other')) / 1000:8.1f} us per decision")


if __name__ == "__main__":
    main()
