"""The code uses every reason of the catalogue, and the catalogue has every reason in the code."""

import ast
from collections.abc import Iterator
from pathlib import Path

from nac.engine.reasons import REASONS

SOURCE = Path(__file__).resolve().parents[2]
FILES = sorted(
    path
    for folder in ("radius/module", "radius/agent", "radius/verifier", "nac/engine", "nac/inventory/identity_sources")
    for path in (SOURCE / folder).rglob("*.py")
)
# Calls whose argument at this position is a reason.
_CALLS = dict.fromkeys(("FailureReason", "VerificationResult", "NoAddress", "Refusal"), 0)
_CALLS |= dict.fromkeys(("Outcome", "Decision", "Ruling"), 1)
_METHODS = {"refused": 0, "deny_undecided": 1}
# Functions that return a reason, or "" for none.
_RETURNING = {
    *("refusal", "check_certificate", "refuse_certificate", "explain_denial"),
    *("_check_authority", "_check_status", "_check_external_status"),
}
# f"certificate-{status}": values of CertificateRecord.status other than valid.
_STATUSES = ("revoked", "suspended")


def reasons_in(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            yield from _of_call(node)
        elif isinstance(node, ast.Assign):
            yield from _of_assignment(node)
        elif isinstance(node, ast.AnnAssign) and _named(node.target, "reason") and node.value:
            yield from _texts(node.value)
        elif isinstance(node, ast.FunctionDef) and node.name in _RETURNING:
            for each in ast.walk(node):
                if isinstance(each, ast.Return) and each.value:
                    yield from _texts(each.value)


def _of_call(call: ast.Call) -> Iterator[str]:
    place = _CALLS.get(call.func.id) if isinstance(call.func, ast.Name) else None
    if isinstance(call.func, ast.Attribute):
        place = _METHODS.get(call.func.attr)
    # nac.engine has another class Outcome, whose first argument is a verdict.
    if place is not None and len(call.args) > place:
        yield from _texts(call.args[place])
    for keyword in call.keywords:
        if keyword.arg == "reason":
            yield from _texts(keyword.value)


def _of_assignment(node: ast.Assign) -> Iterator[str]:
    target = node.targets[0]
    if _named(target, "reason"):
        yield from _texts(node.value)
    elif isinstance(target, ast.Tuple) and _named(target.elts[0], "reason") and isinstance(node.value, ast.Tuple):
        yield from _texts(node.value.elts[0])
    elif _named(target, "refusal"):
        yield from _texts(node.value)
    elif isinstance(target, ast.Name) and target.id.endswith("_REASONS") and isinstance(node.value, ast.Dict):
        for value in node.value.values:
            yield from _texts(value)
    elif _named(target, "_PHRASES") and isinstance(node.value, ast.Tuple):
        for pair in node.value.elts:
            assert isinstance(pair, ast.Tuple)
            yield from _texts(pair.elts[1])


def _texts(node: ast.expr) -> Iterator[str]:
    """String constants that `node` can evaluate to."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value:
        yield node.value
    elif isinstance(node, ast.IfExp):
        yield from _texts(node.body)
        yield from _texts(node.orelse)
    elif isinstance(node, ast.JoinedStr):
        start = node.values[0]
        assert isinstance(start, ast.Constant)
        yield from (f"{start.value}{status}" for status in _STATUSES)
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "get":
        yield from (text for argument in node.args for text in _texts(argument))


def _named(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


def test_code_and_catalogue_have_the_same_reasons():
    used = {reason for path in FILES for reason in reasons_in(ast.parse(path.read_text()))}
    assert (used - set(REASONS), set(REASONS) - used) == (set(), set())


def test_every_reason_has_a_title_and_actionable_advice():
    for reason in REASONS.values():
        assert reason.title[0].isupper()
        assert not reason.title.endswith(".")
        assert reason.advice.endswith(".")
        assert len(reason.advice) >= 30
        assert "  " not in reason.title + reason.advice
