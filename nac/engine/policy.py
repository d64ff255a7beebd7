"""Policies: the written form (JSON) compiled into the form that decides, with every mistake and its place.

The sentence: pinned denies first, then rules in order, first match wins, then the fallback (the site's over the
policy's), and else deny.
"""

import re
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field, replace

from nac.engine import reachability
from nac.engine.assertions import PolicyTest, parse_tests
from nac.engine.attributes import RADIUS_PREFIX
from nac.engine.conditions import Condition, ConditionParser, names_read
from nac.engine.decision import Decision
from nac.engine.document import check_storable
from nac.engine.fused import FirstMatch, fuse
from nac.engine.matchers import Attributes
from nac.engine.mistakes import PolicyErrors, Report, at_index, at_key
from nac.engine.outcome import Outcome, ReplyDictionary, parse_outcome

MAX_RULES = 500
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}\Z")
_MAX_NAME = 200
_DENY = Outcome()
_DENIED = Decision(reason="fallback-denied")


@dataclass(frozen=True, slots=True)
class Rule:
    """A pinned deny is a rule whose outcome is a deny."""

    id: str
    name: str
    when: Condition
    then: Outcome
    pinned: bool = False

    def decision(self) -> Decision:
        reason = "pinned-deny" if self.pinned else "rule-permitted" if self.then.verdict == "permit" else "rule-denied"
        return Decision(self.then.verdict, reason, self.id, self.name, self.then.vlan, self.then.pairs())


def _no_rule(attributes: Attributes) -> int:
    return -1


@dataclass(frozen=True, slots=True)
class Policy:
    """Pinned denies, then rules, in the order in which they are tried. The zero value denies everything.

    `first` and `decisions` are what `decide` uses: every decision is made once, when the policy is compiled. The last
    decision is the fallback's, which -1 (no rule matched) picks.
    """

    rules: tuple[Rule, ...] = ()
    fallback: Outcome = _DENY
    first: FirstMatch = field(default=_no_rule, compare=False, repr=False)
    decisions: tuple[Decision, ...] = (_DENIED,)
    tests: tuple[PolicyTest, ...] = ()

    @property
    def reads(self) -> frozenset[str]:
        """Names of the attributes that its conditions look at."""
        return frozenset(name for rule in self.rules for name in names_read(rule.when))

    def without_trace(self) -> "Policy":
        """Decides the same and cannot say why: half the memory."""
        return replace(self, rules=(), fallback=_DENY, tests=())

    @classmethod
    def of(cls, rules: tuple[Rule, ...], fallback: Outcome) -> "Policy":
        reason = "fallback-permitted" if fallback.verdict == "permit" else "fallback-denied"
        otherwise = Decision(fallback.verdict, reason, vlan=fallback.vlan, reply=fallback.pairs())
        first = fuse([rule.when for rule in rules])
        return cls(rules, fallback, first, (*(rule.decision() for rule in rules), otherwise))


def compile_policy(document: object, *, fallback: object = None, replies: ReplyDictionary | None = None) -> Policy:
    """The policy of a document as `json.loads` gives it.

    `fallback` is the site's own outcome as a document, None to use the policy's. With `replies`, reply attributes and
    `radius.*` conditions are checked against radiusd's dictionaries. Raises PolicyErrors with every mistake and its
    place, and nothing else, whatever the document is.
    """
    if unreadable := check_storable(document):
        raise PolicyErrors(unreadable)
    report = Report()
    if not isinstance(document, dict):
        report.add("", "must be an object with pinned_denies, rules, fallback and tests")
        raise PolicyErrors(report.mistakes)
    for key in document:
        if key not in ("pinned_denies", "rules", "fallback", "tests"):
            report.add(at_key("", key), "unknown key; a policy has: pinned_denies, rules, fallback, tests")
    rules = _RuleParser(report, replies).parse(document)
    own = parse_outcome(document["fallback"], "fallback", report, replies) if "fallback" in document else Outcome()
    if fallback is not None:
        own = _parse_alone(fallback, "site.fallback", report, replies)
    tests = parse_tests(document, report)
    if report:
        raise PolicyErrors(report.mistakes)
    return replace(Policy.of(rules, own), tests=tests)


def compile_outcome(document: object, *, place: str = "fallback", replies: ReplyDictionary | None = None) -> Outcome:
    """One outcome alone, such as the fallback of a site. Raises PolicyErrors."""
    report = Report()
    outcome = _parse_alone(document, place, report, replies)
    if report:
        raise PolicyErrors(report.mistakes)
    return outcome


def _parse_alone(document: object, place: str, report: Report, replies: ReplyDictionary | None) -> Outcome:
    unreadable = check_storable(document)
    for mistake in unreadable:
        report.add(f"{place}.{mistake.place}" if mistake.place else place, mistake.message)
    if unreadable:
        return Outcome()
    return parse_outcome(document, place, report, replies)


class _RuleParser:
    def __init__(self, report: Report, replies: ReplyDictionary | None) -> None:
        self._report = report
        self._replies = replies
        self._conditions = ConditionParser(report)
        self._ids: dict[str, str] = {}

    def parse(self, document: dict[str, object]) -> tuple[Rule, ...]:
        placed = [*self._section(document, "pinned_denies"), *self._section(document, "rules")]
        if len(placed) > MAX_RULES:
            self._report.add("rules", f"{len(placed)} rules; a policy has at most {MAX_RULES}, pinned denies included")
        self._report_unreachable([(place, rule) for place, rule in placed if rule is not None])
        self._check_radius_attributes()
        return tuple(rule for _, rule in placed if rule is not None)

    def _section(self, document: dict[str, object], name: str) -> Iterator[tuple[str, Rule | None]]:
        entries = document.get(name, [])
        if not isinstance(entries, list):
            self._report.add(name, "must be a list")
            return
        for index, entry in enumerate(entries):
            place = at_index(name, index)
            yield place, self._rule(entry, place, pinned=name == "pinned_denies")

    def _rule(self, document: object, place: str, *, pinned: bool) -> Rule | None:
        report = self._report
        keys = ("id", "name", "when") if pinned else ("id", "name", "when", "then")
        if not isinstance(document, dict):
            report.add(place, f"must be an object with {', '.join(keys)}")
            return None
        for key in document:
            if key not in keys:
                report.add(at_key(place, key), f"unknown key; this has: {', '.join(keys)}")
        missing = [key for key in keys if key not in document]
        if missing:
            report.add(place, f"lacks {', '.join(missing)}")
        # What is there is read all the same: every mistake in one answer.
        identifier = self._identifier(document["id"], at_key(place, "id")) if "id" in document else ""
        name = document.get("name")
        if "name" in document and (not isinstance(name, str) or not name.strip() or len(name) > _MAX_NAME):
            report.add(at_key(place, "name"), f"must be text of 1 to {_MAX_NAME} characters")
        when = self._conditions.parse(document["when"], at_key(place, "when")) if "when" in document else None
        then = Outcome()
        if not pinned and "then" in document:
            then = parse_outcome(document["then"], at_key(place, "then"), report, self._replies)
        return None if when is None else Rule(identifier, str(name), when, then, pinned)

    def _identifier(self, value: object, place: str) -> str:
        if not isinstance(value, str) or not _ID.match(value):
            self._report.add(place, "must be 1 to 64 letters, digits, dots, dashes or underscores")
            return ""
        if value in self._ids:
            self._report.add(place, f"the id {value!r} is taken already by {self._ids[value]}")
        self._ids.setdefault(value, place.removesuffix(".id"))
        return value

    def _report_unreachable(self, placed: list[tuple[str, Rule]]) -> None:
        earlier: list[tuple[str, frozenset[Hashable]]] = []
        for place, rule in placed:
            key = reachability.canonical(rule.when)
            if key == reachability.NEVER:
                self._report.add(at_key(place, "when"), "can never match; remove it or correct the condition")
                continue
            parts = reachability.conjuncts(key)
            taken = next((where for where, need in earlier if need <= parts), None)
            if taken is not None:
                self._report.add(place, f"unreachable: {taken} comes first and matches whatever this matches")
            else:
                earlier.append((place, parts))

    def _check_radius_attributes(self) -> None:
        if self._replies is None:
            return
        for place, attribute in self._conditions.attributes_read:
            name = attribute.name.removeprefix(RADIUS_PREFIX)
            if name != attribute.name and not self._replies.knows(name):
                self._report.add(place, f"radiusd's dictionaries have no attribute {name!r}")
