"""Detects rules that never decide: no request matches the rule, or an earlier rule matches all its requests.

Each rule that the module reports is unreachable. The module does not detect all unreachable rules.
"""

from collections.abc import Hashable, Iterable, Iterator
from dataclasses import replace
from typing import NamedTuple

from nac.engine import matchers
from nac.engine.conditions import Comparison, Condition
from nac.engine.implication import ComparisonTerm, build_term, excludes, implies, intersection
from nac.engine.operators import NumberRange, format_value

ALWAYS = ("constant", True)
NEVER = ("constant", False)
# Canonical form of a condition, with "not" only directly before comparisons. Conditions that differ only in order,
# repetition, nesting or the position of "not" have the same canonical form.
Canonical = tuple[str, Hashable]
_OPPOSITES = {"all": "any", "any": "all"}
# Limit of compared pairs of conditions. A pair takes 1 us. A realistic policy of 500 rules needs a third of this limit.
_MAX_STEPS = 500_000


class UnreachableRule(NamedTuple):
    """An unreachable rule, by its index. `never` means that no request matches the rule; otherwise an earlier rule
    always matches first."""

    number: int
    never: bool
    message: str


class _CanonicalRule(NamedTuple):
    where: str
    # Conditions that must all match.
    parts: frozenset[Canonical]
    by_attribute: dict[str, list[Canonical]]
    groups: list[Canonical]


def find_unreachable(rules: Iterable[tuple[str, Condition]]) -> Iterator[UnreachableRule]:
    """Yield the unreachable rules. `rules` are pairs of path and condition, in the order of evaluation."""
    analysis = _Analysis()
    earlier: list[_CanonicalRule] = []
    for number, (place, condition) in enumerate(rules):
        why: list[str] = []
        key = analysis.canonical(condition, why)
        if key == NEVER:
            cause = f": {why[0]}" if why else ""
            yield UnreachableRule(number, True, f"can never match{cause}; remove the rule or correct its condition")
            continue
        rule = analysis.rule(place, key)
        for before in earlier:
            why_not = analysis.find_cover_reason(before, rule)
            if why_not is not None:
                message = f"unreachable: {before.where} matches the same requests first{why_not}"
                yield UnreachableRule(number, False, message)
                break
        else:
            earlier.append(rule)


class _Analysis:
    def __init__(self) -> None:
        self._terms: dict[Canonical, ComparisonTerm] = {}
        self._steps = _MAX_STEPS

    def canonical(self, condition: Condition, why: list[str]) -> Canonical:
        """Return the canonical form. If the condition can never match, add the reason to `why`."""
        if isinstance(condition, Comparison):
            return self._comparison(condition)
        parts = [self.canonical(child, why) for child in condition.children]
        if condition.how == "not":
            return self._consistent(_negate(parts[0]), why)
        if condition.how == "any":
            return _join("any", parts, neutral=NEVER, absorbing=ALWAYS)
        return self._consistent(_join("all", parts, neutral=ALWAYS, absorbing=NEVER), why)

    def rule(self, where: str, key: Canonical) -> _CanonicalRule:
        if key == ALWAYS:
            return _CanonicalRule(where, frozenset(), {}, [])
        parts = _members(key) if key[0] == "all" else frozenset((key,))
        by_attribute: dict[str, list[Canonical]] = {}
        groups: list[Canonical] = []
        for part in parts:
            if part[0] == "comparison":
                by_attribute.setdefault(self._terms[part].comparison.attribute.name, []).append(part)
            else:
                groups.append(part)
        return _CanonicalRule(where, parts, by_attribute, groups)

    def find_cover_reason(self, before: _CanonicalRule, rule: _CanonicalRule) -> str | None:
        """Return why `before` matches whenever `rule` matches ("" if obvious), or None if this is not certain."""
        if not before.parts:
            return ", because it always matches"
        reasons = []
        for need in before.parts:
            if need in rule.parts:
                continue
            because = self._met(need, rule)
            if because is None:
                return None
            reasons.append(f"{self._words(because)} implies {self._words(need)}")
        return f": {'; '.join(sorted(reasons)[:3])}" if reasons else ""

    def _met(self, need: Canonical, rule: _CanonicalRule) -> Canonical | None:
        """Return the part of `rule` that implies `need`."""
        if need[0] == "comparison":
            alike = rule.by_attribute.get(self._terms[need].comparison.attribute.name, [])
            candidates: Iterable[Canonical] = (*alike, *rule.groups)
        else:
            candidates = rule.parts
        return next((part for part in candidates if self._implies(part, need)), None)

    def _implies(self, one: Canonical, other: Canonical) -> bool:
        self._steps -= 1
        if self._steps < 0:
            return False
        if one == other:
            return True
        if other[0] == "all":
            return all(self._implies(one, part) for part in _members(other))
        if one[0] == "any":
            return all(self._implies(part, other) for part in _members(one))
        if other[0] == "any" and any(self._implies(one, part) for part in _members(other)):
            return True
        if one[0] == "all":
            return any(self._implies(part, other) for part in _members(one))
        if other[0] == "not":
            inner = _inner(other)
            return self._implies(inner, _inner(one)) if one[0] == "not" else self._excludes(one, inner)
        if one[0] == other[0] == "comparison":
            term, another = self._terms[one], self._terms[other]
            return term.comparison.attribute.name == another.comparison.attribute.name and implies(term, another)
        return False

    def _excludes(self, one: Canonical, other: Canonical) -> bool:
        """Whether it is certain that `one` and `other` never match the same request."""
        self._steps -= 1
        if self._steps < 0:
            return False
        for first, second in ((one, other), (other, one)):
            if first[0] == "any":
                return all(self._excludes(part, second) for part in _members(first))
        for first, second in ((one, other), (other, one)):
            if first[0] == "not":
                return self._implies(second, _inner(first))
        for first, second in ((one, other), (other, one)):
            if first[0] == "all":
                return any(self._excludes(part, second) for part in _members(first))
        if one[0] == other[0] == "comparison":
            term, another = self._terms[one], self._terms[other]
            attribute = term.comparison.attribute
            if attribute.name != another.comparison.attribute.name or attribute.many:
                return False
            return excludes(term, another)
        return False

    def _comparison(self, comparison: Comparison) -> Canonical:
        term = build_term(comparison)
        key = ("comparison", (comparison.attribute.name, term.shape))
        self._terms.setdefault(key, term)
        return key

    def _consistent(self, key: Canonical, why: list[str]) -> Canonical:
        """Return NEVER if two parts of an "all" exclude each other. If no parts exclude each other, merge the
        ranges of each attribute."""
        if key[0] != "all":
            return key
        parts = _members(key)
        by_attribute: dict[str, list[Canonical]] = {}
        others: list[Canonical] = []
        for part in parts:
            if part[0] == "comparison":
                attribute = self._terms[part].comparison.attribute
                if not attribute.many:
                    for seen in by_attribute.setdefault(attribute.name, []):
                        if self._excludes(seen, part):
                            return self._contradiction(seen, part, why)
                    by_attribute[attribute.name].append(part)
            else:
                others.append(part)
        for other in others:
            for part in parts:
                if part is not other and self._excludes(part, other):
                    return self._contradiction(part, other, why)
        merged = self._merge_ranges(parts)
        return ("all", merged) if len(merged) > 1 else next(iter(merged))

    def _contradiction(self, one: Canonical, other: Canonical, why: list[str]) -> Canonical:
        why.append(" and ".join(sorted((self._words(one), self._words(other)))) + " exclude each other")
        return NEVER

    def _merge_ranges(self, parts: frozenset[Canonical]) -> frozenset[Canonical]:
        """Merge ranges of a single-valued attribute: "at least 5" and "at most 9" become "between 5 and 9"."""
        merged: dict[str, tuple[Comparison, NumberRange]] = {}
        kept = set(parts)
        for part in parts:
            term = self._terms.get(part)
            if term is None:
                continue
            comparison = term.comparison
            if comparison.attribute.many or not isinstance(comparison.wanted, NumberRange):
                continue
            kept.discard(part)
            name = comparison.attribute.name
            _, before = merged.get(name, (comparison, NumberRange(None, None)))
            merged[name] = comparison, intersection(before, comparison.wanted)
        for name, (comparison, numbers) in merged.items():
            match = matchers.on_number(name, numbers.test())
            if numbers != comparison.wanted:
                comparison = replace(comparison, operator="between", value=list(numbers), wanted=numbers, match=match)
            kept.add(self._comparison(comparison))
        return frozenset(kept)

    def _words(self, key: Canonical) -> str:
        if key[0] == "comparison":
            comparison = self._terms[key].comparison
            value = "" if comparison.operator == "exists" else f" {format_value(comparison.value)}"
            return f"{comparison.attribute.name} {comparison.operator}{value}"
        if key[0] == "not":
            return f"not ({self._words(_inner(key))})"
        return f"{key[0]} of {len(_members(key))} conditions"


def _members(key: Canonical) -> frozenset[Canonical]:
    assert isinstance(key[1], frozenset)
    return key[1]


def _inner(key: Canonical) -> Canonical:
    assert isinstance(key[1], tuple)
    return key[1]


def _negate(inner: Canonical) -> Canonical:
    if inner[0] == "constant":
        return NEVER if inner == ALWAYS else ALWAYS
    if inner[0] == "not":
        return _inner(inner)
    if inner[0] in _OPPOSITES:
        return _OPPOSITES[inner[0]], frozenset(map(_negate, _members(inner)))
    return "not", inner


def _join(how: str, parts: Iterable[Canonical], *, neutral: Canonical, absorbing: Canonical) -> Canonical:
    flat: set[Canonical] = set()
    for part in parts:
        if part[0] == how:
            flat |= _members(part)
        elif part != neutral:
            flat.add(part)
    if absorbing in flat or any(part[0] == "not" and part[1] in flat for part in flat):
        return absorbing
    if not flat:
        return neutral
    return next(iter(flat)) if len(flat) == 1 else (how, frozenset(flat))
