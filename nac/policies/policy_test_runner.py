"""Runs policy tests with the engine of the cells."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from nac.engine import Decision, Expectation, Policy, PolicyTest, ReplyDictionary, decide
from nac.engine.vendors import ReplyAttribute
from nac.kit.errors import Conflict
from nac.policies.explanation import explain_decision, explain_unmatched_rule
from nac.policies.json_rows import pool_rows, reply_rows
from nac.policies.site_context import NO_SITE, SiteContext


@dataclass(frozen=True, slots=True)
class UnmetExpectation:
    """An expectation that the decision does not meet."""

    what: str
    expected: str
    came: str

    def __str__(self) -> str:
        return f"{self.what}: expected {self.expected or 'none'}, got {self.came or 'none'}"


@dataclass(frozen=True, slots=True)
class PolicyTestResult:
    test: PolicyTest
    decision: Decision
    unmet: tuple[UnmetExpectation, ...]
    # Explanation of the decision; "" if the test passed.
    why: str

    @property
    def passed(self) -> bool:
        return not self.unmet

    def __str__(self) -> str:
        if self.passed:
            return f"{self.test.name}: passed"
        return f"{self.test.place} {self.test.name!r}: {'; '.join(map(str, self.unmet))}. {self.why}"


class PolicyTestsFailed(Conflict):
    """Tests of the policy fail. Nothing was published."""

    def __init__(self, failures: Sequence[PolicyTestResult]) -> None:
        count = f"{len(failures)} tests of the policy fail" if len(failures) > 1 else "A test of the policy fails"
        super().__init__(
            "\n  ".join((f"{count}:", *map(str, failures))),
            place="tests",
            remedy="\nCorrect the policy or the tests, and save the policy again.",
        )
        self.failures = tuple(failures)
        self._count = count

    @property
    def members(self) -> Mapping[str, Any]:
        return {"detail": f"{self._count}.", "failed_tests": [test_row(failure) for failure in self.failures]}


def run_tests(
    policy: Policy, document: object, places: Mapping[str, SiteContext], *, replies: ReplyDictionary | None = None
) -> tuple[PolicyTestResult, ...]:
    """Run every test of `policy`, which is the compiled `document`.

    `places` has the sites by slug, with at least the sites that the tests name. Raises InvalidPolicy if the document
    does not compile with the fallback of a named site.
    """
    compiled: dict[str, Policy] = {}
    results = []
    for test in policy.tests:
        if test.site not in compiled:
            place = places[test.site] if test.site else NO_SITE
            compiled[test.site] = place.compile(document, replies=replies)
        decision = decide(compiled[test.site], test.request, trace=True)
        unmet = tuple(_list_unmet(test.expect, decision))
        results.append(
            PolicyTestResult(test, decision, unmet, _explain_failure(test.expect, decision) if unmet else "")
        )
    return tuple(results)


def test_row(result: PolicyTestResult) -> dict[str, Any]:
    decision = result.decision
    return {
        "name": result.test.name,
        "place": result.test.place,
        "passed": result.passed,
        "unmet": [asdict(unmet) for unmet in result.unmet],
        "why": result.why,
        "decision": {
            "verdict": decision.verdict,
            "permitted": decision.permitted,
            "monitored": bool(decision.monitored),
            "monitored_by": decision.monitored,
            "rule": decision.rule_id,
            "reason": decision.reason,
            "vlan": decision.vlan,
            "reply": reply_rows(decision.reply),
            "pools": pool_rows(decision.pools),
        },
    }


def require_passed(results: Sequence[PolicyTestResult]) -> None:
    """Raise PolicyTestsFailed with all failed tests."""
    if failures := [result for result in results if not result.passed]:
        raise PolicyTestsFailed(failures)


def _explain_failure(expect: Expectation, decision: Decision) -> str:
    if expect.rule and expect.rule != decision.rule_id:
        return f"{explain_decision(decision)} {explain_unmatched_rule(decision, expect.rule)}"
    return explain_decision(decision)


def _list_unmet(expect: Expectation, decision: Decision) -> Iterator[UnmetExpectation]:
    pairs = (
        ("verdict", expect.verdict, decision.verdict),
        ("rule", expect.rule, decision.rule_id),
        ("reason", expect.reason, decision.reason),
        ("vlan", expect.vlan, decision.vlan),
    )
    for what, expected, came in pairs:
        if expected is not None and expected != came:
            yield UnmetExpectation(what, expected, came)
    if expect.monitored is not None and expect.monitored != bool(decision.monitored):
        yield UnmetExpectation("monitored", "yes" if expect.monitored else "no", decision.monitored or "no")
    for item in expect.reply:
        if not _is_sent(item, decision):
            yield UnmetExpectation(
                "reply", " ".join(filter(None, item.pair())), ", ".join(map(" ".join, decision.reply))
            )


def _is_sent(expected: ReplyAttribute, decision: Decision) -> bool:
    # Attribute names are case-insensitive (FreeRADIUS dictionary(5)).
    name, operator, value = expected.pair()
    return any(
        sent.lower() == name.lower() and sent_value == value and operator in ("", sent_operator)
        for sent, sent_operator, sent_value in decision.reply
    )
