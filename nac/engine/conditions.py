"""Conditions: all, any, not over comparisons of one attribute with a value, and references to named conditions.

Semantics:
* A comparison with a missing attribute is false; so `{"not": {...}}` of it is true. `exists` tells the two apart.
* An attribute with several values matches if any of them does. "None of them" is `not`.
* "Not equal" is `{"not": {"operator": "equals", ...}}`: no operator holds and fails at once.
* `{"all": []}` always matches; `{"any": []}` never does and is refused as unreachable.
* Text compares exactly, or case-folded where the attribute is case-insensitive by nature (see `attributes`) or the
  comparison says "ignore_case".
* `{"condition": name}` means what the condition of that name means; limits hold as if it stood there.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from nac.engine import matchers, windows
from nac.engine.attributes import CATALOGUE, Attribute, find_attribute
from nac.engine.matchers import MISSING, Attributes, Match, Scalar
from nac.engine.mistakes import Report, at_index, at_key
from nac.engine.named import MAX_NAMED, Suggestions, reading_order
from nac.engine.operators import OPERATORS, Compiled, Wanted, compile_value, require_operator, shown, takes_ignore_case

MAX_DEPTH = 10
MAX_CONDITIONS = 2000
MAX_PATTERNS = 100
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}\Z")
_KINDS = ("all", "any", "not", "attribute", "condition")

# JSON, as a document has it.
Value = object


@dataclass(frozen=True, slots=True)
class Comparison:
    place: str
    attribute: Attribute
    operator: str
    value: Value
    # The value in comparable form.
    wanted: Wanted
    folded: bool
    match: Match = field(compare=False, repr=False)

    def seen(self, attributes: Attributes) -> tuple[Scalar, ...]:
        """The values it looked at, for people; () where the attribute is missing."""
        values = tuple(attributes.get(self.attribute.name, MISSING))
        if self.attribute.kind == "time":
            return tuple(windows.shown(value) for value in values if isinstance(value, int))
        return values


@dataclass(frozen=True, slots=True)
class Group:
    """All or any of `children`; "not" has exactly one."""

    how: Literal["all", "any", "not"]
    children: tuple["Condition", ...]
    match: Match = field(compare=False, repr=False)


Condition = Comparison | Group


def names_read(condition: Condition) -> Iterator[str]:
    """Names of the attributes that it compares; one may come several times."""
    if isinstance(condition, Comparison):
        yield condition.attribute.name
        return
    for child in condition.children:
        yield from names_read(child)


class _Extent(NamedTuple):
    """Of a condition with every reference put in: how many it is made of, and how deep they are nested."""

    size: int
    depth: int


class _Definition(NamedTuple):
    condition: Condition
    extent: _Extent


class ConditionParser:
    """Parses the conditions of one document and counts them against its limits."""

    def __init__(self, report: Report, definitions: object = None) -> None:
        """`definitions`: the document's named conditions; mistakes in them are reported here, used or not."""
        self._report = report
        self._suggestions = Suggestions()
        # As written, everywhere.
        self._written = 0
        self._patterns = 0
        # With references put in: of the rules, or of the definition that is being read.
        self._count = 0
        self._deepest = 0
        self.attributes_read: list[tuple[str, Attribute]] = []
        self._named: dict[str, _Definition | None] = {}
        if definitions is not None:
            self._define(definitions)

    def _define(self, definitions: object) -> None:
        if not isinstance(definitions, dict):
            self._report.add("conditions", "must be an object of names and conditions")
            return
        if len(definitions) > MAX_NAMED:
            self._report.add("conditions", f"{len(definitions)} names; a policy has at most {MAX_NAMED}")
            return
        self._named = dict.fromkeys(definitions)
        for name in definitions:
            if not _NAME.match(name):
                place = at_key("conditions", name)
                self._report.add(place, "a name has 1 to 64 letters, digits, dots, dashes or underscores")
        order, circles = reading_order(definitions)
        for circle in circles:
            place = at_key("conditions", circle[0])
            self._report.add(place, f"refers to itself: {' -> '.join(circle)}; take one of these references out")
        for name in order:
            self._count = self._deepest = 0
            parsed = self.parse(definitions[name], at_key("conditions", name))
            if parsed is not None:
                self._named[name] = _Definition(parsed, _Extent(self._count, self._deepest))
        self._count = self._deepest = 0

    def parse(self, document: object, place: str, depth: int = 1) -> Condition | None:
        """The condition, or None after reporting why there is none."""
        self._written += 1
        if self._written == MAX_CONDITIONS + 1:
            self._report.add(place, f"more than {MAX_CONDITIONS} conditions; use one_of, or groups")
        if self._written > MAX_CONDITIONS or not self._fits(_Extent(1, 1), place, depth):
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

    def _fits(self, extent: _Extent, place: str, depth: int) -> bool:
        """Counts what stands at `place`; False after reporting that it is too much."""
        deepest = depth + extent.depth - 1
        if deepest > MAX_DEPTH:
            self._report.add(place, f"nested deeper than {MAX_DEPTH} conditions; flatten it")
            return False
        before = self._count
        self._count += extent.size
        if before <= MAX_CONDITIONS < self._count:
            self._report.add(place, f"more than {MAX_CONDITIONS} conditions with the named ones put in; use fewer")
        self._deepest = max(self._deepest, deepest)
        return self._count <= MAX_CONDITIONS

    def _reference(self, name: object, place: str, depth: int) -> Condition | None:
        if not isinstance(name, str) or name not in self._named:
            near = self._suggestions.nearest(name, self._named)
            self._report.add(place, f'there is no condition {shown(name)} under "conditions"{near}')
            return None
        found = self._named[name]
        # What is wrong with the definition is reported there.
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
            return Group("all", children, matchers.every(matches))
        return Group("any", children, matchers.some(matches))

    def _negation(self, part: object, place: str, depth: int) -> Condition | None:
        child = self.parse(part, place, depth + 1)
        return None if child is None else Group("not", (child,), matchers.negate(child.match))

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
        self, attribute: Attribute, operator: str, document: dict[str, object], *, ignore_case: bool
    ) -> Compiled:
        if operator == "exists":
            if document.get("value", True) is not True:
                raise ValueError('exists takes no value; for "is missing" write {"not": {...}} around it')
            return Compiled(None, matchers.exists(attribute.name))
        if "value" not in document:
            raise ValueError(f"{operator} needs a value")
        if operator == "matches":
            self._patterns += 1
            if self._patterns > MAX_PATTERNS:
                raise ValueError(f"more than {MAX_PATTERNS} patterns; use one_of, starts_with or in_domain")
        return compile_value(attribute, operator, document["value"], ignore_case=ignore_case)

    def _ignore_case(self, attribute: Attribute, operator: str, document: dict[str, object], place: str) -> bool:
        asked = document.get("ignore_case", False)
        if not isinstance(asked, bool):
            self._report.add(place, "must be true or false, without quotes")
            return False
        if asked and not takes_ignore_case(attribute, operator):
            self._report.add(place, f"{operator} on {attribute.name} knows no upper and lower case; leave it out")
            return False
        return asked

    def _attribute(self, name: object, place: str) -> Attribute | None:
        attribute = find_attribute(name) if isinstance(name, str) else None
        if attribute is None:
            near = self._suggestions.nearest(name, CATALOGUE)
            remedy = near or "; `policy attributes` lists those there are"
            self._report.add(place, f"unknown attribute {shown(name)}{remedy}")
        return attribute

    def _unknown_operator(self, operator: object) -> str:
        if operator in ("not_equals", "not_one_of", "not_exists"):
            return f'there is no {operator}; write {{"not": {{...}}}} around the positive condition'
        near = self._suggestions.nearest(operator, dict.fromkeys(OPERATORS))
        remedy = near or f"; there are: {', '.join(OPERATORS)}"
        return f"unknown operator {shown(operator)}{remedy}"

    def _refuse_other_keys(self, document: dict[str, object], allowed: tuple[str, ...], place: str) -> None:
        for key in document:
            if key not in allowed:
                self._report.add(at_key(place, key), f"unknown key; a condition of this kind has: {', '.join(allowed)}")


def _quoted(word: str) -> str:
    return f'"{word}"'
