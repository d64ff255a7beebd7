"""The policy engine: pure functions on frozen values, standard library only.

Call `compile_policy(document) -> Policy` once, and `decide(policy, request) -> Decision` per request.
"""

from nac.engine.decision import ComparisonTrace, Decision, PolicyRequest, RuleTrace
from nac.engine.document import find_unstorable, parse_policy_text
from nac.engine.mistakes import DocumentErrors, DocumentMistake, PolicyErrors, RequestErrors
from nac.engine.outcome import Outcome
from nac.engine.policy import Policy, Rule, compile_outcome, compile_policy, decide
from nac.engine.policy_tests import Expectation, PolicyTest, parse_moment
from nac.engine.references import PolicyReference, references
from nac.engine.reply_check import ReplyDictionary
from nac.engine.requests import parse_request

__all__ = [
    "ComparisonTrace",
    "Decision",
    "DocumentErrors",
    "DocumentMistake",
    "Expectation",
    "Outcome",
    "Policy",
    "PolicyErrors",
    "PolicyReference",
    "PolicyRequest",
    "PolicyTest",
    "ReplyDictionary",
    "RequestErrors",
    "Rule",
    "RuleTrace",
    "compile_outcome",
    "compile_policy",
    "decide",
    "find_unstorable",
    "parse_moment",
    "parse_policy_text",
    "parse_request",
    "references",
]
