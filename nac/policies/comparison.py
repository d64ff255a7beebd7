"""Compares a draft's decisions about recorded requests with recorded decisions or decisions of the published policy."""

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, NamedTuple

from sqlalchemy.orm import Session

from nac.cellformat.packet_values import is_packet_attribute
from nac.engine import Policy, PolicyRequest, decide
from nac.engine.admission import require_passphrase
from nac.policies.differences import ComparedOutcome, DifferenceTally
from nac.policies.site_context import SiteContext
from nac.sessions.decisions.recorded_requests import (
    RecordedAttributes,
    RecordedOutcome,
    RecordedRequests,
    from_microseconds,
)

ReplayBaseline = Literal["recorded", "published"]
# Limit of distinct requests in memory, about 20 MB.
MAX_DISTINCT_REQUESTS = 20_000
PROGRESS_EVERY = 5_000
# Attribute that the log lacks, because the engine derives it from the time of the request.
_TIME = "time"
_NO_ANSWER = ComparedOutcome("deny", "", "")
OLDER_FORMAT = "older-format"


@dataclass(frozen=True, slots=True)
class UnrecordedAttribute:
    """An attribute that the draft uses, but that some or all replayed requests lack. For these requests, comparisons
    with the attribute are false."""

    attribute: str
    rules: tuple[str, ...]
    # Number of replayed requests that have the attribute, and time of the first of these requests.
    held_by: int
    first_held: datetime | None

    def __str__(self) -> str:
        using = f"rules {', '.join(self.rules)} use" if len(self.rules) > 1 else f"rule {self.rules[0]} uses"
        if self.first_held is None:
            return f"{using} {self.attribute}, which no replayed request has"
        since = f"{self.first_held:%Y-%m-%d %H:%M} UTC"
        return f"{using} {self.attribute}, which is not recorded before {since}"


class SiteDecider(NamedTuple):
    """The policies to compare at a site: the draft and the published version (None without a published version)."""

    place: SiteContext
    draft: Policy
    current: Policy | None


class _RequestKind:
    """Recorded requests that have the same attributes and the same recorded decision."""

    __slots__ = ("attributes", "count", "first", "recorded", "tally")

    def __init__(self, recorded: RecordedOutcome, attributes: RecordedAttributes) -> None:
        self.recorded = recorded
        # {} if the requests cannot be replayed.
        self.attributes = attributes
        # Counter of these requests; None if the decision depends on the time.
        self.tally: DifferenceTally | None = None
        self.count = 0
        # Time of the earliest request in epoch microseconds.
        self.first = 2**63


class ReplayComparison:
    """Compares the decisions about all recorded requests in one pass."""

    def __init__(self, deciders: Mapping[str, SiteDecider], against: ReplayBaseline) -> None:
        self._deciders = deciders
        self._against = against
        compared = [
            policy for decider in deciders.values() for policy in (decider.draft, decider.current) if policy is not None
        ]
        reads: frozenset[str] = frozenset().union(*(policy.reads for policy in compared))
        self._depends_on_time = _TIME in reads
        self.names: Collection[str] = sorted(reads - {_TIME})
        self._kinds: dict[bytes, _RequestKind] = {}
        self._tallies: dict[tuple[ComparedOutcome, ComparedOutcome], DifferenceTally] = {}
        self._refusals: dict[str, DifferenceTally] = {}
        # Attribute -> number of requests that have the attribute, and time of the first of these requests.
        self._held: Counter[str] = Counter()
        self._first_held: dict[str, int] = {}
        self._first = 2**63
        self.suppressed = 0

    def read(
        self, session: Session, requests: RecordedRequests, *, report: Callable[[int], None] | None = None
    ) -> None:
        """Read and compare all requests.

        After every PROGRESS_EVERY requests, the method passes the number of processed requests to `report`.
        """
        kinds = self._kinds
        for count, (at_digits, number, device, rest) in enumerate(requests.rows(session)):
            if report is not None and not count % PROGRESS_EVERY:
                report(count)
            kind = kinds.get(rest)
            if kind is None:
                if len(kinds) >= MAX_DISTINCT_REQUESTS:
                    self._forget()
                kind = kinds[rest] = self._kind(*requests.read(rest))
            at = int(at_digits)
            kind.count += 1
            if at < kind.first:
                kind.first = at
            tally = kind.tally or self._compare(kind, at)
            tally.requests += 1
            if tally.differs:
                tally.note(at, number, device)
        self._forget()

    def _kind(self, recorded: RecordedOutcome, attributes: RecordedAttributes | None) -> _RequestKind:
        kind = _RequestKind(recorded, attributes or {})
        if refused := recorded.refused or ("" if attributes else OLDER_FORMAT):
            kind.tally = self._refusals.setdefault(refused, DifferenceTally(_NO_ANSWER, _NO_ANSWER))
        elif not self._depends_on_time:
            kind.tally = self._compare(kind, 0)
        return kind

    def _compare(self, kind: _RequestKind, at: int) -> DifferenceTally:
        request = PolicyRequest(kind.attributes, at // 1_000_000)
        recorded = kind.recorded
        decider = self._deciders[recorded.site_id]
        after = _decide(decider.draft, request, recorded)
        if self._against == "recorded":
            after = after._replace(pools=())
            before = ComparedOutcome(recorded.verdict, recorded.rule_id, recorded.vlan, recorded.monitored)
        elif decider.current is None:
            before = ComparedOutcome.of(decider.place.decide_without_policy(kind.attributes.get("nas.vendor", ())))
        else:
            before = _decide(decider.current, request, recorded)
        key = before, after
        tally = self._tallies.get(key)
        if tally is None:
            tally = self._tallies[key] = DifferenceTally(before, after)
        return tally

    def _forget(self) -> None:
        """Add the counts of all request kinds to the totals, and clear the cache of kinds."""
        for kind in self._kinds.values():
            self.suppressed += kind.recorded.suppressed * kind.count
            if kind.attributes:
                self._first = min(self._first, kind.first)
            for name in kind.attributes:
                self._held[name] += kind.count
                self._first_held[name] = min(kind.first, self._first_held.get(name, kind.first))
        self._kinds.clear()

    def list_differing(self) -> list[DifferenceTally]:
        """Return the groups of requests with different decisions, largest group first."""
        tallies = [tally for tally in self._tallies.values() if tally.differs]
        return sorted(tallies, key=lambda tally: (-tally.requests, tally.before, tally.after))

    @property
    def not_replayable(self) -> Counter[str]:
        return Counter({reason: tally.requests for reason, tally in self._refusals.items()})

    @property
    def unchanged(self) -> int:
        return sum(tally.requests for tally in self._tallies.values() if not tally.differs)

    @property
    def total(self) -> int:
        return sum(tally.requests for tally in (*self._tallies.values(), *self._refusals.values()))

    def unrecorded(self) -> tuple[UnrecordedAttribute, ...]:
        """Return attributes that the draft uses and that are missing in the log.

        The log always has all RADIUS attributes. The log has any other attribute only from the time when the cell began
        to compute the attribute.
        """
        drafts = [decider.draft for decider in self._deciders.values()]
        if not drafts or self._first == 2**63:
            return ()
        rules_by_name = _rules_by_attribute(drafts[0])
        first_day = from_microseconds(self._first).date()
        missing = []
        for name in sorted(rules_by_name.keys() - {_TIME}):
            first = self._first_held.get(name)
            if not is_packet_attribute(name) and (first is None or from_microseconds(first).date() > first_day):
                since = None if first is None else from_microseconds(first)
                missing.append(UnrecordedAttribute(name, rules_by_name[name], self._held[name], since))
        return tuple(missing)


def _decide(policy: Policy, request: PolicyRequest, recorded: RecordedOutcome) -> ComparedOutcome:
    decision = decide(policy, request)
    if recorded.lacks_passphrase:
        decision = require_passphrase(decision, has_passphrase=False, has_ssid=False)
    return ComparedOutcome.of(decision)


def _rules_by_attribute(policy: Policy) -> dict[str, tuple[str, ...]]:
    """Map each attribute to the ids of the rules that use it."""
    rules: dict[str, tuple[str, ...]] = {}
    for rule in policy.rules:
        for name in rule.reads:
            rules[name] = (*rules.get(name, ()), rule.id)
    return rules
