"""Decision tables: drop a file into cases/ and it runs.

{"policy": {...}, "fallback": optional site fallback, "monitor": optional mode of the site,
"requests": [{"why", "request": {...}, "expect": {...}}]}
"""

import json
from pathlib import Path

import pytest

from nac.engine import compile_policy, decide, read_policy_text, read_request
from nac.reasons import REASONS

CASES = sorted((Path(__file__).parent / "cases").glob("*.json"))


def rows():
    for path in CASES:
        case = read_policy_text(path.read_bytes())
        for index, row in enumerate(case["requests"]):
            yield pytest.param(case, row, id=f"{path.stem}-{index}-{row['why'].replace(' ', '-')}")


@pytest.mark.parametrize(("case", "row"), list(rows()))
def test_case_file_row_decides_as_expected(case, row):
    policy = compile_policy(case["policy"], fallback=case.get("fallback"), monitor=case.get("monitor", False))
    request = read_request(row["request"], at=0)

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
    # A cell holds no more of a policy than what decides, and reads no more of a request than the policy asks for.
    asked = {name: values for name, values in request.attributes.items() if name in policy.reads}
    assert decide(policy.without_trace(), request._replace(attributes=asked)) == decision
    # The explanation may never disagree with the decision it explains.
    explained = decide(policy, request, trace=True)
    assert (explained.verdict, explained.rule_id, explained.reply) == (
        decision.verdict,
        decision.rule_id,
        decision.reply,
    )
    assert [step.rule_id for step in explained.trace if step.matched] == (
        [decision.rule_id] if decision.rule_id else []
    )


def test_case_files_exist():
    assert len(CASES) >= 3
    for path in CASES:
        json.loads(path.read_text())
