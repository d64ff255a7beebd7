"""Conditions: comparisons that `all`, `any` and `not` combine, and references to named conditions.

Semantics:
* A comparison with a missing attribute is false, so `{"not": ...}` around it is true. `exists` tests for presence.
* If the request or the condition has several values, a comparison matches if any of these values match. Put the
  comparison in `not` to require that no value matches.
* "Not equal" is `{"not": {"operator": "equals", ...}}`. There are no negative operators.
* `{"all": []}` always matches. `{"any": []}` never matches and is rejected as unreachable.
* Comparisons of text are exact, except for `folded` attributes (see `attributes`) and with "ignore_case".
* The named condition replaces the reference `{"condition": name}`. The limits on size and depth count the named
  condition at each reference.
* A named condition can refer to other named conditions, but not in a cycle.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from graphlib import CycleError, TopologicalSorter
from typing import Literal, NamedTuple

from nac.engine import matchers, time_windows
from nac.engine.attributes import ATTRIBUTE_CATALOGUE, PolicyAttribute, find_attribute
from nac.engine.matchers import MISSING, Attributes, Matcher, Scalar
from nac.engine.mistakes import MistakeReport, at_index, at_key
from nac.engine.operators import (
    OPERATORS,
    ComparedValue,
    CompiledComparison,
    compile_value,
    format_value,
    require_operator,
    takes_ignore_case,
)

MAX_NAMED = 500
# Finding a similar name takes milliseconds, and a document may have thousands of mistakes.
_MAX_SUGGESTIONS = 20


class NameSuggestions:
    """Suggests similar names for the first few unknown names of a document."""

    def __init__(self) -> None:
        self._left = _MAX_SUGGESTIONS

    def nearest(self, name: object, known: Mapping[str, object]) -> str:
        """Return a suggestion to append to a message, or ""."""
        if not isinstance(name, str) or len(name) > 128 or not self._left:
            return ""
        self._left -= 1
        found = get_close_matches(name, known, n=1, cutoff=0.7)
        return f"; did you mean {found[0]!r}?" if found else ""


def order_definitions(definitions: Mapping[str, object]) -> tuple[list[str], list[list[str]]]:
    """Return the names of the conditions that are not part of a reference cycle, and the cycles.

    Each name comes after the names to which its condition refers. A cycle is a list of names, with the first name
    repeated at the end.
    """
    graph = {
        name: [other for other in list_referred_names(definition) if other in definitions]
        for name, definition in definitions.items()
    }
    places = {name: place for place, name in enumerate(graph)}
    circles: list[list[str]] = []
    while True:
        sorter = TopologicalSorter(graph)
        try:
            sorter.prepare()
        except CycleError as error:
            # TopologicalSorter lists a cycle backwards. Reverse it, and start with the first name in the document.
            circle = list(reversed(error.args[1]))[:-1]
            start = min(range(len(circle)), key=lambda index: places[circle[index]])
            circle = circle[start:] + circle[:start]
            circles.append([*circle, circle[0]])
            for name in circle:
                del graph[name]
            graph = {name: [other for other in others if other in graph] for name, others in graph.items()}
        else:
            return list(TopologicalSorter(graph).static_order()), circles


def list_referred_names(condition: object) -> list[str]:
    """Return the names to which a condition refers, in order, without duplicates; [] for an invalid condition."""
    found: dict[str, None] = {}
    stack = [condition]
    while stack:
        part = stack.pop()
        if not isinstance(part, dict):
            continue
        name = part.get("condition")
        if isinstance(name, str):
            found[name] = None
        for key in ("all", "any"):
            children = part.get(key)
            if isinstance(children, list):
                stack.extend(reversed(children))
        stack.append(part.get("not"))
    return list(found)


MAX_DEPTH = 10
MAX_CONDITIONS = 2000
MAX_PATTERNS = 100
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}\Z")
_KINDS = ("all", "any", "not", "attribute", "condition")

JsonValue = object


@dataclass(frozen=True, slots=True)
class Comparison:
    place: str
    attribute: PolicyAttribute
    operator: str
    value: JsonValue
    # The value in comparable form.
    wanted: ComparedValue
    folded: bool
    match: Matcher = field(compare=False, repr=False)

    def seen(self, attributes: Attributes) -> tuple[Scalar, ...]:
        """Return the values of the request that were compared, for display; () if the attribute is missing."""
        values = tuple(attributes.get(self.attribute.name, MISSING))
        if self.attribute.kind == "time":
            return tuple(time_windows.format_wall_time(value) for value in values if isinstance(value, int))
        return values


@dataclass(frozen=True, slots=True)
class ConditionGroup:
    """A group of conditions: all or any of `children` must match, or (for "not") the only child must not match."""

    how: Literal["all", "any", "not"]
    children: tuple["Condition", ...]
    match: Matcher = field(compare=False, repr=False)


Condition = Comparison | ConditionGroup


def iter_attribute_names(condition: Condition) -> Iterator[str]:
    """Yield the names of compared attributes, possibly repeated."""
    if isinstance(condition, Comparison):
        yield condition.attribute.name
        return
    for child in condition.children:
        yield from iter_attribute_names(child)


class _ConditionExtent(NamedTuple):
    """Size and depth of a condition with all references expanded."""

    size: int
    depth: int


class _NamedDefinition(NamedTuple):
    condition: Condition
    extent: _ConditionExtent


class ConditionParser:
    """Parses the conditions of one document and checks its limits."""

    def __init__(self, report: MistakeReport, definitions: object = None) -> None:
        """`definitions` are the named conditions of the document. Mistakes in unused definitions are reported, too."""
        self._report = report
        self._suggestions = NameSuggestions()
        # Number of conditions in the document, in which a reference is one condition.
        self._written = 0
        self._patterns = 0
        # Number of conditions with references expanded, in all rules or in the current definition.
        self._count = 0
        self._deepest = 0
        self.attributes_read: list[tuple[str, PolicyAttribute]] = []
        self._named: dict[str, _NamedDefinition | None] = {}
        if definitions is not None:
            self._define(definitions)

    def _define(self, definitions: object) -> None:
        if not isinstance(definitions, dict):
            self._report.add("conditions", "must be an object with names as keys and conditions as values")
            return
        if len(definitions) > MAX_NAMED:
            self._report.add("conditions", f"too many named conditions: {len(definitions)}; the limit is {MAX_NAMED}")
            return
        self._named = dict.fromkeys(definitions)
        for name in definitions:
            if not _NAME.match(name):
                place = at_key("conditions", name)
                self._report.add(place, "the name must have 1 to 64 letters, digits, dots, dashes or underscores")
        order, circles = order_definitions(definitions)
        for circle in circles:
            place = at_key("conditions", circle[0])
            self._report.add(place, f"refers to itself: {' -> '.join(circle)}; remove one of these references")
        for name in order:
            self._count = self._deepest = 0
            parsed = self.parse(definitions[name], at_key("conditions", name))
            if parsed is not None:
                self._named[name] = _NamedDefinition(parsed, _ConditionExtent(self._count, self._deepest))
        self._count = self._deepest = 0

    def parse(self, document: object, place: str, depth: int = 1) -> Condition | None:
        """Return the condition, or None after reporting a mistake."""
        self._written += 1
        if self._written == MAX_CONDITIONS + 1:
            self._report.add(place, f"more than {MAX_CONDITIONS} conditions; use one_of, or groups")
        if self._written > MAX_CONDITIONS or not self._fits(_ConditionExtent(1, 1), place, depth):
            return None
        if not isinstance(document, dict):
            self._report.add(place, 'must be an object: {"all": [...]}, {"any": [...]}, {"not": ...} or a comparison')
            return None
        kinds = [key for key in _KINDS if key in document]
        if len(kinds) != 1:
            self._report.add(place, f"must have exactly one of the keys {', '.join(map(_quoted, _KINDS))}")
            return None
        kind = kinds[0]
        if kind == "attribute":
            return self._comparison(document, place)
        self._refuse_other_keys(document, (kind,), place)
        below = at_key(place, kind)
        if kind == "condition":
            return self._reference(document[kind], below, depth)
        if kind == "not":
            return self._negation(document[kind], below, depth)
        return self._junction(kind, document[kind], below, depth)

    def _fits(self, extent: _ConditionExtent, place: str, depth: int) -> bool:
        """Count the condition at `place`. If a limit is exceeded, reports the mistake and returns False."""
        deepest = depth + extent.depth - 1
        if deepest > MAX_DEPTH:
            self._report.add(place, f"nested deeper than {MAX_DEPTH} conditions; use fewer levels")
            return False
        before = self._count
        self._count += extent.size
        if before <= MAX_CONDITIONS < self._count:
            self._report.add(place, f"more than {MAX_CONDITIONS} conditions, named ones included; use fewer")
        self._deepest = max(self._deepest, deepest)
        return self._count <= MAX_CONDITIONS

    def _reference(self, name: object, place: str, depth: int) -> Condition | None:
        if not isinstance(name, str) or name not in self._named:
            near = self._suggestions.nearest(name, self._named)
            self._report.add(
                place, f'unknown condition {format_value(name)}; define this condition under "conditions"{near}'
            )
            return None
        found = self._named[name]
        # None: the definition has a mistake, which is reported at the definition.
        if found is None or not self._fits(found.extent, place, depth + 1):
            return None
        return found.condition

    def _junction(self, how: str, parts: object, place: str, depth: int) -> Condition | None:
        if not isinstance(parts, list):
            self._report.add(place, "must be a list of conditions")
            return None
        parsed = [self.parse(part, at_index(place, index), depth + 1) for index, part in enumerate(parts)]
        children = tuple(child for child in parsed if child is not None)
        if len(children) != len(parsed):
            return None
        matches = [child.match for child in children]
        if how == "all":
            return ConditionGroup("all", children, matchers.all_of(matches))
        return ConditionGroup("any", children, matchers.any_of(matches))

    def _negation(self, part: object, place: str, depth: int) -> Condition | None:
        child = self.parse(part, place, depth + 1)
        return None if child is None else ConditionGroup("not", (child,), matchers.negate(child.match))

    def _comparison(self, document: dict[str, object], place: str) -> Comparison | None:
        self._refuse_other_keys(document, ("attribute", "operator", "value", "ignore_case"), place)
        attribute = self._attribute(document["attribute"], at_key(place, "attribute"))
        operator = document.get("operator")
        if not isinstance(operator, str) or operator not in OPERATORS:
            self._report.add(at_key(place, "operator"), self._unknown_operator(operator))
            return None
        if attribute is None:
            return None
        self.attributes_read.append((at_key(place, "attribute"), attribute))
        try:
            require_operator(attribute, operator)
        except ValueError as error:
            self._report.add(at_key(place, "operator"), str(error))
            return None
        ignore_case = self._ignore_case(attribute, operator, document, at_key(place, "ignore_case"))
        try:
            wanted, match = self._compile(attribute, operator, document, ignore_case=ignore_case)
        except ValueError as error:
            self._report.add(at_key(place, "value"), str(error))
            return None
        folded = attribute.folded or ignore_case
        return Comparison(place, attribute, operator, document.get("value"), wanted, folded, match)

    def _compile(
        self, attribute: PolicyAttribute, operator: str, document: dict[str, object], *, ignore_case: bool
    ) -> CompiledComparison:
        if operator == "exists":
            if document.get("value", True) is not True:
                raise ValueError('exists has no value; for "is missing", put the condition in {"not": {...}}')
            return CompiledComparison(None, matchers.exists(attribute.name))
        if "value" not in document:
            raise ValueError(f"{operator} needs a value")
        if operator == "matches":
            self._patterns += 1
            if self._patterns > MAX_PATTERNS:
                raise ValueError(f"more than {MAX_PATTERNS} patterns; use one_of, starts_with or in_domain")
        return compile_value(attribute, operator, document["value"], ignore_case=ignore_case)

    def _ignore_case(self, attribute: PolicyAttribute, operator: str, document: dict[str, object], place: str) -> bool:
        ignore_case = document.get("ignore_case", False)
        if not isinstance(ignore_case, bool):
            self._report.add(place, "must be true or false, without quotes")
            return False
        if ignore_case and not takes_ignore_case(attribute, operator):
            self._report.add(place, f"not supported for {operator} on {attribute.name}; remove this key")
            return False
        return ignore_case

    def _attribute(self, name: object, place: str) -> PolicyAttribute | None:
        attribute = find_attribute(name) if isinstance(name, str) else None
        if attribute is None:
            near = self._suggestions.nearest(name, ATTRIBUTE_CATALOGUE)
            remedy = near or "; docs/reference/policy.md lists the attributes"
            self._report.add(place, f"unknown attribute {format_value(name)}{remedy}")
        return attribute

    def _unknown_operator(self, operator: object) -> str:
        if operator in ("not_equals", "not_one_of", "not_exists"):
            return f'unknown operator {operator}; put the positive condition in {{"not": {{...}}}}'
        near = self._suggestions.nearest(operator, dict.fromkeys(OPERATORS))
        remedy = near or f"; use one of: {', '.join(OPERATORS)}"
        return f"unknown operator {format_value(operator)}{remedy}"

    def _refuse_other_keys(self, document: dict[str, object], allowed: tuple[str, ...], place: str) -> None:
        for key in document:
            if key not in allowed:
                self._report.add(at_key(place, key), f"unknown key; keys of this condition: {', '.join(allowed)}")


def _quoted(word: str) -> str:
    return f'"{word}"'


def could_match(condition: Condition, known: Attributes) -> bool:
    """Whether `condition` can match a request with the attribute values in `known` and any other attributes."""
    return _possible_results(condition, known)[0]


def _possible_results(condition: Condition, known: Attributes) -> tuple[bool, bool]:
    """Return whether `condition` can match, and whether it can fail to match. If a result depends on attributes that
    are not in `known`, both values are True."""
    if isinstance(condition, Comparison):
        if condition.attribute.name not in known:
            return True, True
        holds = condition.match(known)
        return holds, not holds
    children = [_possible_results(child, known) for child in condition.children]
    if condition.how == "not":
        could_hold, could_fail = children[0]
        return could_fail, could_hold
    combined, other = (all, any) if condition.how == "all" else (any, all)
    return combined(could for could, _ in children), other(could for _, could in children)
