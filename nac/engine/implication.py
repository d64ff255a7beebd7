"""Tests whether a comparison implies or excludes another comparison of the same attribute.

The result True is certain for each valid request (single values where required, normalised IP addresses). The result
False means that the comparison does not imply or exclude the other, or that the test cannot detect this.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, cast

from nac.engine import networks, operators
from nac.engine.conditions import Comparison
from nac.engine.operators import ComparedValue, NumberRange
from nac.engine.time_windows import TimeWindow

# Operators for which "ignore_case" makes no difference.
_FOLDED_BY_NATURE = ("in_domain", "in_network", "exists", "within")
_EXACT_OPERATORS = ("equals", "one_of")
_PARTIAL_OPERATORS = ("starts_with", "ends_with", "contains")
# Functions that build a test: does a domain or network lie in one of the listed domains or networks?
_COVERED_BY: dict[str, Callable[[Any], Callable[[Any], bool]]] = {
    "in_domain": operators.build_domain_cover_test,
    "in_network": networks.build_network_cover_test,
}


class ComparisonTerm(NamedTuple):
    """A comparison in canonical form. Comparisons with equal `shape` match the same requests."""

    comparison: Comparison
    # Operator (or the name of a group of operators), whether case is ignored, compared value.
    shape: tuple[str, bool, ComparedValue]


def build_term(comparison: Comparison) -> ComparisonTerm:
    wanted, folded = comparison.wanted, False
    if isinstance(wanted, NumberRange):
        how = "range"
    elif comparison.operator not in _EXACT_OPERATORS:
        how = comparison.operator
        folded = comparison.folded and how not in _FOLDED_BY_NATURE
    elif isinstance(wanted, bool):
        how = "truth"
    elif isinstance(wanted, frozenset) and isinstance(next(iter(wanted)), int):
        how = "numbers"
    else:
        how, folded = "texts", comparison.folded
    return ComparisonTerm(comparison, (how, folded, wanted))


def implies(one: ComparisonTerm, other: ComparisonTerm) -> bool:
    """Whether `other` matches every request that `one` matches. `one` and `other` must compare the same
    attribute."""
    how, folded, wanted = one.shape
    other_how, other_folded, other_wanted = other.shape
    if other_how == "exists" or one.shape == other.shape:
        return True
    if how == "texts":
        if other_how == "texts" and folded == other_folded:
            return bool(wanted <= other_wanted)  # type: ignore[operator]
        return _is_represented_by_values(one, other) and all(_holds(other, value) for value in _values(one))
    if how in ("numbers", "range") and other_how in ("numbers", "range"):
        return _numbers_imply(wanted, other_wanted)
    match wanted, other_wanted:
        case TimeWindow(), TimeWindow():
            return wanted.within(other_wanted)
        case str(), str() if how in _PARTIAL_OPERATORS and other_how in (how, "contains"):
            if folded and not other_folded:
                # `one` also matches other spellings of its text, which `other` may not match.
                return False
            return _part_test(other_how, _fold(wanted, other_folded), other_wanted)
        case frozenset(), frozenset() if how == other_how:
            return all(map(_COVERED_BY[how](other_wanted), wanted))
    return False


def excludes(one: ComparisonTerm, other: ComparisonTerm) -> bool:
    """Whether `one` and `other` never match the same request. Both comparisons must compare the same single-valued
    attribute."""
    how, folded, wanted = one.shape
    other_how, other_folded, other_wanted = other.shape
    if "exists" in (how, other_how):
        return False
    for first, second in ((one, other), (other, one)):
        if first.shape[0] == "texts" and _is_represented_by_values(first, second):
            return not any(_holds(second, value) for value in _values(first))
    if how in ("numbers", "range") and other_how in ("numbers", "range"):
        return _numbers_exclude(wanted, other_wanted)
    if how != other_how:
        return False
    match wanted, other_wanted:
        case bool(), bool():
            return wanted is not other_wanted
        case TimeWindow(), TimeWindow():
            return wanted.excludes(other_wanted)
        case str(), str() if how in ("starts_with", "ends_with"):
            folding = folded or other_folded
            shorter, longer = sorted((_fold(wanted, folding), _fold(other_wanted, folding)), key=len)
            return not _part_test(how, longer, shorter)
        case frozenset(), frozenset():
            is_covered = _COVERED_BY[how]
            return not any(map(is_covered(wanted), other_wanted)) and not any(map(is_covered(other_wanted), wanted))
    return False


def _is_represented_by_values(texts: ComparisonTerm, other: ComparisonTerm) -> bool:
    """Return whether `other` gives the same result for each spelling (upper or lower case) of a text in `texts`."""
    how, other_folded, _ = other.shape
    if not texts.comparison.folded or how in ("exists", "in_domain"):
        return True
    if texts.comparison.attribute.kind in ("address", "mac"):
        return other_folded or how == "in_network"
    # RE2 folds single characters, but Python's case folding can turn one character into several.
    return other_folded and how != "matches"


def _values(term: ComparisonTerm) -> frozenset[str]:
    return cast(frozenset[str], term.comparison.wanted)


def _holds(term: ComparisonTerm, value: str) -> bool:
    return term.comparison.match({term.comparison.attribute.name: (value,)})


def _fold(text: str, folded: bool) -> str:
    return text.casefold() if folded else text


def _part_test(how: str, text: str, part: str) -> bool:
    if how == "starts_with":
        return text.startswith(part)
    return text.endswith(part) if how == "ends_with" else part in text


def _numbers_imply(numbers: ComparedValue, others: ComparedValue) -> bool:
    if isinstance(numbers, frozenset):
        return all(map(_number_test(others), cast(frozenset[int], numbers)))
    assert isinstance(numbers, NumberRange)
    if isinstance(others, frozenset):
        return numbers.least == numbers.most and numbers.least in others
    return intersection(numbers, cast(NumberRange, others)) == numbers


def _numbers_exclude(numbers: ComparedValue, others: ComparedValue) -> bool:
    for some, rest in ((numbers, others), (others, numbers)):
        if isinstance(some, frozenset):
            return not any(map(_number_test(rest), cast(frozenset[int], some)))
    least, most = intersection(cast(NumberRange, numbers), cast(NumberRange, others))
    return least is not None and most is not None and most < least


def _number_test(numbers: ComparedValue) -> Callable[[int], bool]:
    if isinstance(numbers, frozenset):
        return cast(frozenset[int], numbers).__contains__
    return cast(NumberRange, numbers).test()


def intersection(one: NumberRange, other: NumberRange) -> NumberRange:
    """Return the intersection of two ranges. In an empty intersection, `least` is greater than `most`."""
    leasts = [bound for bound in (one.least, other.least) if bound is not None]
    mosts = [bound for bound in (one.most, other.most) if bound is not None]
    return NumberRange(max(leasts, default=None), min(mosts, default=None))
