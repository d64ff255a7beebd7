"""Explanations of decisions as sentences, and traces as JSON."""

from nac.engine import ComparisonTrace, Decision, RuleTrace

_WINDOW_KEYS = ("days", "from", "to", "dates")


def explain_decision(decision: Decision) -> str:
    """Explain which rule decided and why. The decision must contain its trace."""
    for tried in decision.trace:
        if tried.matched:
            return explain_rule(tried)
    count = len(decision.trace)
    return (
        f"None of {count} rule{'' if count == 1 else 's'} matched, so the fallback decided."
        if count
        else "No rules: the fallback decided."
    )


def explain_unmatched_rule(decision: Decision, rule_id: str) -> str:
    """Explain why a rule did not decide. The decision must contain its trace."""
    for tried in decision.trace:
        if tried.rule_id == rule_id:
            return explain_rule(tried)
    return f"Rule {rule_id!r} was not evaluated: {decision.rule_id!r} matched first."


def explain_rule(tried: RuleTrace) -> str:
    what = "Pinned deny" if tried.pinned else "Rule"
    verb = "matched" if tried.matched else "did not match"
    because = "; ".join(map(_explain_comparison, tried.because))
    return f"{what} {tried.rule_name!r} ({tried.rule_id}) {verb}{': ' if because else ''}{because}."


def trace_rows(decision: Decision) -> list[dict[str, object]]:
    """Return the trace for JSON: rules in the order of evaluation."""
    return [
        {
            "rule": tried.rule_id,
            "name": tried.rule_name,
            "pinned": tried.pinned,
            "matched": tried.matched,
            "because": [_comparison_row(comparison) for comparison in tried.because],
            "sentence": explain_rule(tried),
        }
        for tried in decision.trace
    ]


def _explain_comparison(comparison: ComparisonTrace) -> str:
    value = "" if comparison.value is None else f" {_format_value(comparison.value)}"
    seen = ", ".join(map(_format_value, comparison.seen)) if comparison.seen else "nothing"
    verdict = "holds" if comparison.matched else "fails"
    return f"{comparison.attribute} {comparison.operator}{value} {verdict}, seen {seen}"


def _comparison_row(comparison: ComparisonTrace) -> dict[str, object]:
    return {
        "place": comparison.place,
        "attribute": comparison.attribute,
        "operator": comparison.operator,
        "value": comparison.value,
        "seen": list(comparison.seen),
        "matched": comparison.matched,
    }


def _format_value(value: object) -> str:
    """Format a value as in the document, with text in single quotes."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return repr(value)
    if isinstance(value, list):
        return f"[{', '.join(map(_format_value, value))}]"
    if isinstance(value, dict):
        # Put days before times, because PostgreSQL's jsonb does not preserve the order of keys.
        ordered = sorted(
            value.items(),
            key=lambda item: _WINDOW_KEYS.index(item[0]) if item[0] in _WINDOW_KEYS else len(_WINDOW_KEYS),
        )
        return f"{{{', '.join(f'{key} {_format_value(each)}' for key, each in ordered)}}}"
    return str(value)
