"""Decision tables: each file in cases/ is a test.

A file contains {"policy": {...}, "fallback": optional site fallback, "time_zone": optional, "monitor": optional mode of
the site, "requests": [{"why", "request": {...}, "at": optional moment, "expect": {...}}]}.
"""

from datetime import datetime
from pathlib import Path

import pytest

from nac.engine import compile_policy, decide, parse_policy_text, parse_request
from nac.engine.attributes import ATTRIBUTE_CATALOGUE, NAME_PARTS, list_open_attributes
from nac.engine.operators import OPERATORS
from nac.engine.reasons import REASONS

CASES = sorted((Path(__file__).parent / "cases").glob("*.json"))
# One table covers the parts of an issuer and of a subject.
PARTS_ALIKE = {f"certificate.issuer.{part}" for part in NAME_PARTS} - {"certificate.issuer.O", "certificate.issuer.CN"}


def rows():
    for path in CASES:
        case = parse_policy_text(path.read_bytes())
        for index, row in enumerate(case["requests"]):
            yield pytest.param(case, row, id=f"{path.stem}-{index}-{row['why'].replace(' ', '-')}")


@pytest.mark.parametrize(("case", "row"), list(rows()))
def test_case_file_row_decides_as_expected(case, row):
    policy, request = compiled(case), request_of(row)

    decision = decide(policy, request)

    answer = {
        "verdict": decision.verdict,
        "reason": decision.reason,
        "rule": decision.rule_id,
        "vlan": decision.vlan,
        "reply": [list(pair) for pair in decision.reply],
        "permitted": decision.permitted,
        "monitored": decision.monitored,
        "detail": decision.detail,
    }
    expect = row["expect"]
    assert {"verdict", "reason"} <= expect.keys(), "a row states at least the verdict and the reason"
    assert {key: answer[key] for key in expect} == expect
    assert decision.reason in REASONS
    # A cell stores only the deciding part of a policy and reads only the attributes that the policy uses.
    read = {name: values for name, values in request.attributes.items() if name in policy.reads}
    assert decide(policy.without_trace(), request._replace(attributes=read)) == decision
    # The explanation must always match the decision.
    explained = decide(policy, request, trace=True)
    assert (explained.verdict, explained.rule_id, explained.reply) == (
        decision.verdict,
        decision.rule_id,
        decision.reply,
    )
    assert [step.rule_id for step in explained.trace if step.matched] == (
        [decision.rule_id] if decision.rule_id else []
    )


def compiled(case):
    return compile_policy(
        case["policy"],
        fallback=case.get("fallback"),
        time_zone=case.get("time_zone", "UTC"),
        monitor=case.get("monitor", False),
    )


def request_of(row):
    return parse_request(row["request"], at=int(datetime.fromisoformat(row["at"]).timestamp()) if "at" in row else 0)


def test_every_operator_and_attribute_has_hit_and_near_miss():
    """In a near miss the attribute is present, and the comparison decides."""
    seen = set()
    for path in CASES:
        case = parse_policy_text(path.read_bytes())
        for row in case["requests"]:
            for step in decide(compiled(case), request_of(row), trace=True).trace:
                for cause in step.because:
                    if cause.seen or cause.operator == "exists":
                        seen |= {(cause.operator, cause.matched), (cause.attribute, cause.matched)}
    # A presence check needs a present and an absent attribute.
    wanted = {*OPERATORS, *ATTRIBUTE_CATALOGUE} - PARTS_ALIKE
    assert {(what, held) for what in wanted for held in (True, False)} - seen == set()
    opened = {name.partition(".")[0] for name, _ in seen}
    assert {each.name.partition(".")[0] for each in list_open_attributes()} <= opened
