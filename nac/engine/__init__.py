"""The policy engine: pure functions on frozen values, standard library only.

Call `compile_policy(document) -> Policy` once, and `decide(policy, request) -> Decision` per request.
"""

from nac.engine.assertions import Expectation, PolicyTest, read_moment
from nac.engine.deciding import decide
from nac.engine.decision import ComparisonTrace, Decision, Request, RuleTrace
from nac.engine.document import check_storable, read_policy_text
from nac.engine.mistakes import DocumentErrors, Mistake, PolicyErrors, RequestErrors
from nac.engine.outcome import Outcome
from nac.engine.policy import Policy, Rule, compile_outcome, compile_policy
from nac.engine.references import Reference, references
from nac.engine.rendering import ReplyDictionary
from nac.engine.requests import read_request

__all__ = [
    "ComparisonTrace",
    "Decision",
    "DocumentErrors",
    "Expectation",
    "Mistake",
    "Outcome",
    "Policy",
    "PolicyErrors",
    "PolicyTest",
    "Reference",
    "ReplyDictionary",
    "Request",
    "RequestErrors",
    "Rule",
    "RuleTrace",
    "check_storable",
    "compile_outcome",
    "compile_policy",
    "decide",
    "read_moment",
    "read_policy_text",
    "read_request",
    "references",
]
