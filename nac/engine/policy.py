"""Compiles policies from JSON documents, and decides requests with a compiled policy (`decide`).

A mistake in a document is reported with its path.

A policy applies pinned denies, then rules (the first match wins), then its fallback or the site's own fallback.
Without a fallback, the policy denies the request.

`decide` uses only the policy and the request. It does no I/O and reads no clock.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, tzinfo
from itertools import islice

from nac.engine.attributes import RADIUS_PREFIX
from nac.engine.compiled_rules import (
    AttributeCompletion,
    FirstMatch,
    build_completion,
    compile_first_match,
    find_source_attributes,
)
from nac.engine.conditions import Comparison, Condition, ConditionParser, could_match, iter_attribute_names
from nac.engine.decision import ComparisonTrace, Decision, PolicyRequest, RuleTrace
from nac.engine.document import find_unstorable
from nac.engine.matchers import MISSING, Attributes
from nac.engine.mistakes import MistakeReport, PolicyErrors, at_index, at_key
from nac.engine.outcome import Outcome, OutcomeParser
from nac.engine.policy_tests import PolicyTest, parse_tests
from nac.engine.reachability import find_unreachable
from nac.engine.reply_check import ReplyDictionary
from nac.engine.rulings import DecisionTable, Ruling
from nac.engine.time_windows import parse_time_zone
from nac.engine.vendors import find_vendor

MAX_RULES = 500
_SECTIONS = ("pinned_denies", "rules")
_KEYS = ("conditions", "profiles", *_SECTIONS, "fallback", "tests")
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}\Z")
_MAX_NAME = 200
_DENY = Outcome()
_FALLBACK_REASONS = {
    "permit": "fallback-permitted",
    "quarantine": "fallback-quarantined",
    "deny": "fallback-denied",
}
_RULE_REASONS = {"permit": "rule-permitted", "quarantine": "rule-quarantined", "deny": "rule-denied"}


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule. A pinned deny is a rule that denies."""

    id: str
    name: str
    when: Condition
    then: Outcome
    pinned: bool = False
    # Monitor mode: the outcome of the rule is only logged, and the fallback applies.
    monitor: bool = False

    @property
    def reads(self) -> frozenset[str]:
        """Return the attributes that the condition uses, and the source attributes of derived attributes."""
        names = frozenset(iter_attribute_names(self.when))
        return names | find_source_attributes(names)

    def ruling(self, *, monitor_site: bool) -> Ruling:
        reason = "pinned-deny" if self.pinned else _RULE_REASONS[self.then.verdict]
        return Ruling(self.then, reason, self.id, self.name, "site" if monitor_site else "rule" if self.monitor else "")


def _match_no_rule(attributes: Attributes) -> int:
    return -1


@dataclass(frozen=True, slots=True)
class Policy:
    """Pinned denies and rules in order. A `Policy` with default values denies every request.

    `decide` calls `first`, which returns the index of the matching rule, and looks up the decision of this index in
    `decisions`. Index -1 (no match) selects the fallback.
    """

    rules: tuple[Rule, ...] = ()
    fallback: Outcome = _DENY
    first: FirstMatch = field(default=_match_no_rule, compare=False, repr=False)
    decisions: DecisionTable = field(
        default=DecisionTable([Ruling(_DENY, "fallback-denied")]), compare=False, repr=False
    )
    # Adds derived attributes to a request; None if the policy uses none.
    complete: AttributeCompletion | None = field(default=None, compare=False, repr=False)
    tests: tuple[PolicyTest, ...] = ()

    @property
    def reads(self) -> frozenset[str]:
        """Return the attributes that the rules use, and `nas.vendor`, which selects the format of the reply."""
        return frozenset({"nas.vendor"}).union(*(rule.reads for rule in self.rules))

    def refusals(self, nas: Attributes) -> Iterator[tuple[str, str]]:
        """Yield (path in the document, reason) for each result that a NAS does not support.

        `nas` has the attributes of the NAS: `nas.name`, `nas.vendor`, `site.name`. For a policy that `without_trace`
        returned, this method yields nothing, because that policy has no rules.
        """
        vendor = find_vendor(next(iter(nas.get("nas.vendor", ())), ""))
        answers = [
            (f"rules[{index}].then", rule.then)
            for index, rule in enumerate(rule for rule in self.rules if not rule.pinned)
            if could_match(rule.when, nas)
        ]
        for place, outcome in (*answers, ("fallback", self.fallback)):
            for refusal in vendor.render(outcome.results).refusals:
                yield f"{place}.{refusal.place}", refusal.why

    def without_trace(self) -> "Policy":
        """Return a policy that makes the same decisions and needs half the memory, but cannot produce traces."""
        return replace(self, rules=(), fallback=_DENY, tests=())

    @classmethod
    def of(cls, rules: tuple[Rule, ...], fallback: Outcome, *, zone: tzinfo = UTC, monitor: bool = False) -> "Policy":
        otherwise = Ruling(fallback, _FALLBACK_REASONS[fallback.verdict], monitored="site" if monitor else "")
        first = compile_first_match([rule.when for rule in rules])
        decisions = DecisionTable([*(rule.ruling(monitor_site=monitor) for rule in rules), otherwise])
        return cls(rules, fallback, first, decisions, build_completion(_attribute_names(rules), zone))


def _attribute_names(rules: tuple[Rule, ...]) -> frozenset[str]:
    return frozenset(name for rule in rules for name in iter_attribute_names(rule.when))


def compile_policy(
    document: object,
    *,
    fallback: object = None,
    replies: ReplyDictionary | None = None,
    time_zone: str = "UTC",
    monitor: bool = False,
    refuse_unreachable: bool = True,
) -> Policy:
    """Compile a policy document (from `json.loads`).

    `fallback` is the document of the site's own fallback; None means that the policy's own fallback applies. With
    `replies`, the function checks `radius.*` conditions and the replies for every vendor against radiusd's
    dictionaries. `time_zone` is the IANA name of the zone for time conditions. `monitor` means that the site is in
    monitor mode. `refuse_unreachable` rejects rules that can never match. Set `refuse_unreachable` only for new
    versions, because published versions must keep working.

    Raises PolicyErrors with every mistake, and no other error.
    """
    if unreadable := find_unstorable(document):
        raise PolicyErrors(unreadable)
    report = MistakeReport()
    if not isinstance(document, dict):
        report.add("", f"must be an object with {', '.join(_KEYS)}")
        raise PolicyErrors(report.mistakes)
    for key in document:
        if key not in _KEYS:
            report.add(at_key("", key), f"unknown key; keys of a policy: {', '.join(_KEYS)}")
    zone = _parse_zone(time_zone, report)
    outcomes = OutcomeParser(report, replies)
    outcomes.read_profiles(document.get("profiles", {}))
    rules = _RuleParser(report, replies, outcomes, document.get("conditions")).parse(document, refuse_unreachable)
    own = outcomes.parse(document["fallback"], "fallback") if "fallback" in document else Outcome()
    if fallback is not None:
        own = _parse_site_fallback(fallback, "site.fallback", report, outcomes)
    tests = parse_tests(document, report)
    if report:
        raise PolicyErrors(report.mistakes)
    return replace(Policy.of(rules, own, zone=zone, monitor=monitor), tests=tests)


def _parse_zone(name: str, report: MistakeReport) -> tzinfo:
    try:
        return parse_time_zone(name)
    except ValueError as error:
        report.add("site.time_zone", str(error))
        return UTC


def compile_outcome(document: object, *, place: str = "fallback", replies: ReplyDictionary | None = None) -> Outcome:
    """Compile the document of a site's own fallback. Raises PolicyErrors."""
    report = MistakeReport()
    outcome = _parse_site_fallback(document, place, report, OutcomeParser(report, replies))
    if report:
        raise PolicyErrors(report.mistakes)
    return outcome


def _parse_site_fallback(document: object, place: str, report: MistakeReport, outcomes: OutcomeParser) -> Outcome:
    unreadable = find_unstorable(document)
    for mistake in unreadable:
        report.add(f"{place}.{mistake.place}" if mistake.place else place, mistake.message)
    if unreadable:
        return Outcome()
    return outcomes.parse(document, place, of_site=True)


class _RuleParser:
    def __init__(
        self, report: MistakeReport, replies: ReplyDictionary | None, outcomes: OutcomeParser, conditions: object
    ) -> None:
        self._report = report
        self._replies = replies
        self._outcomes = outcomes
        self._conditions = ConditionParser(report, conditions)
        self._ids: dict[str, str] = {}

    def parse(self, document: dict[str, object], refuse_unreachable: bool) -> tuple[Rule, ...]:
        sections = [document.get(name) for name in _SECTIONS]
        count = sum(len(entries) for entries in sections if isinstance(entries, list))
        if count > MAX_RULES:
            self._report.add("rules", f"too many rules: {count}; the limit is {MAX_RULES}, including pinned denies")
        placed = [entry for name in _SECTIONS for entry in self._section(document, name)]
        if refuse_unreachable and len(placed) <= MAX_RULES:
            self._report_unreachable([(place, rule) for place, rule in placed if rule is not None])
        self._check_radius_attributes()
        return tuple(rule for _, rule in placed if rule is not None)

    def _section(self, document: dict[str, object], name: str) -> Iterator[tuple[str, Rule | None]]:
        entries = document.get(name, [])
        if not isinstance(entries, list):
            self._report.add(name, "must be a list")
            return
        # Rules above the limit are not read.
        for index, entry in enumerate(islice(entries, MAX_RULES)):
            place = at_index(name, index)
            yield place, self._rule(entry, place, pinned=name == "pinned_denies")

    def _rule(self, document: object, place: str, *, pinned: bool) -> Rule | None:
        report = self._report
        needed = ("id", "name", "when") if pinned else ("id", "name", "when", "then")
        keys = needed if pinned else (*needed, "monitor")
        if not isinstance(document, dict):
            report.add(place, f"must be an object with {', '.join(keys)}")
            return None
        for key in document:
            if key not in keys:
                report.add(at_key(place, key), f"unknown key; keys here: {', '.join(keys)}")
        missing = [key for key in needed if key not in document]
        if missing:
            report.add(place, f"lacks {', '.join(missing)}")
        # Parse what is present, to report all mistakes at once.
        identifier = self._identifier(document["id"], at_key(place, "id")) if "id" in document else ""
        name = document.get("name")
        if "name" in document and (not isinstance(name, str) or not name.strip() or len(name) > _MAX_NAME):
            report.add(at_key(place, "name"), f"must be text of 1 to {_MAX_NAME} characters")
        when = self._conditions.parse(document["when"], at_key(place, "when")) if "when" in document else None
        then = Outcome()
        if not pinned and "then" in document:
            then = self._outcomes.parse(document["then"], at_key(place, "then"))
        monitor = document.get("monitor", False)
        if not isinstance(monitor, bool):
            report.add(at_key(place, "monitor"), "must be true or false")
        return None if when is None else Rule(identifier, str(name), when, then, pinned, monitor is True)

    def _identifier(self, value: object, place: str) -> str:
        if not isinstance(value, str) or not _ID.match(value):
            self._report.add(place, "must be 1 to 64 letters, digits, dots, dashes or underscores")
            return ""
        if value in self._ids:
            self._report.add(place, f"the id {value!r} is already used by {self._ids[value]}")
        self._ids.setdefault(value, place.removesuffix(".id"))
        return value

    def _report_unreachable(self, placed: list[tuple[str, Rule]]) -> None:
        for number, never, message in find_unreachable((f"{place} ({rule.id})", rule.when) for place, rule in placed):
            place = placed[number][0]
            self._report.add(at_key(place, "when") if never else place, message)

    def _check_radius_attributes(self) -> None:
        if self._replies is None:
            return
        for place, attribute in self._conditions.attributes_read:
            name = attribute.name.removeprefix(RADIUS_PREFIX)
            if name != attribute.name and not self._replies.knows(name):
                self._report.add(place, f"unknown RADIUS attribute {name!r}")


# Decision about a request whose values have a wrong type, such as a number instead of a tuple.
_MALFORMED_DECISION = Decision()


def decide(policy: Policy, request: PolicyRequest, *, trace: bool = False) -> Decision:
    """Apply pinned denies, rules and fallback; the first match wins. Never raises.

    With `trace`, the decision contains every evaluated rule, with the comparisons that decided whether the rule
    matched.
    """
    attributes = request.attributes
    try:
        if policy.complete is not None:
            attributes = policy.complete(attributes, request.at)
        if trace:
            return _decide_with_trace(policy, attributes)
        return policy.decisions.of(attributes.get("nas.vendor", MISSING), policy.first(attributes))
    except (TypeError, AttributeError):
        return _MALFORMED_DECISION


def _decide_with_trace(policy: Policy, attributes: Attributes) -> Decision:
    tried: list[RuleTrace] = []
    vendor = attributes.get("nas.vendor", MISSING)
    for index, rule in enumerate(policy.rules):
        matched = rule.when.match(attributes)
        because = tuple(_decisive_comparisons(rule.when, attributes, matched))
        tried.append(RuleTrace(rule.id, rule.name, rule.pinned, matched, because))
        if matched:
            return replace(policy.decisions.of(vendor, index), trace=tuple(tried))
    return replace(policy.decisions.of(vendor, -1), trace=tuple(tried))


def _decisive_comparisons(condition: Condition, attributes: Attributes, held: bool) -> list[ComparisonTrace]:
    """Return the comparisons that decided whether `condition` matched."""
    if isinstance(condition, Comparison):
        name = condition.attribute.name
        seen = condition.seen(attributes)
        return [ComparisonTrace(condition.place, name, condition.operator, condition.value, seen, held)]
    if condition.how == "not":
        return _decisive_comparisons(condition.children[0], attributes, not held)
    if held == (condition.how == "all"):
        return [because for child in condition.children for because in _decisive_comparisons(child, attributes, held)]
    # One child decides: the first mismatch of "all", the first match of "any".
    child = next(child for child in condition.children if child.match(attributes) == held)
    return _decisive_comparisons(child, attributes, held)
