"""Counts of sessions in a re-decision by action, NAS, site and change, with a few examples of each change."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from nac.kit.mac import display_mac
from nac.policies.differences import ComparedOutcome
from nac.redecisions.judgement import Judgement

EXAMPLES_PER_CHANGE = 3
# Limit of listed rows. The smallest counts are omitted.
MAX_LISTED = 200


class OutcomeChange(NamedTuple):
    action: str
    before: ComparedOutcome
    after: ComparedOutcome
    # Reason of the new decision: a code of nac.engine.reasons.
    reason: str


class SessionExample(NamedTuple):
    # `sessions.id`
    session: int
    # 12 hexadecimal digits or "".
    mac: str
    identity: str
    nas: str


class CountedChange(NamedTuple):
    """Number of sessions with the same change, NAS and site."""

    change: OutcomeChange
    nas: str
    site: str
    sessions: int
    examples: Sequence[SessionExample]


@dataclass(slots=True)
class RedecisionTallies:
    sessions: int = 0
    unchanged: int = 0
    # Number of sessions about which a request is open or has just ended.
    already_requested: int = 0
    # Number of sessions whose request may disconnect the device.
    may_disconnect: int = 0
    actions: Counter[str] = field(default_factory=Counter)
    # Number of sessions by UndecidableReason (nac.redecisions.judgement).
    undecidable: Counter[str] = field(default_factory=Counter)
    # Number of sessions by name of the NAS or site, and action.
    nases: Counter[tuple[str, str]] = field(default_factory=Counter)
    sites: Counter[tuple[str, str]] = field(default_factory=Counter)
    changes: Counter[OutcomeChange] = field(default_factory=Counter)
    examples: defaultdict[OutcomeChange, list[SessionExample]] = field(default_factory=lambda: defaultdict(list))

    def add_judgements(self, judgements: Iterable[Judgement]) -> None:
        for each in judgements:
            self.sessions += 1
            if each.undecidable:
                self.undecidable[each.undecidable] += 1
            elif each.is_requested:
                self.already_requested += 1
            elif not each.action:
                self.unchanged += 1
            else:
                example = SessionExample(each.live.id, each.live.mac, each.live.identity, each.nas)
                change = OutcomeChange(each.action, each.before, each.after, each.reason)
                self.may_disconnect += each.may_disconnect
                self.add(CountedChange(change, each.nas, each.site, 1, (example,)))

    def add(self, found: CountedChange) -> None:
        self.actions[found.change.action] += found.sessions
        self.nases[found.nas, found.change.action] += found.sessions
        self.sites[found.site, found.change.action] += found.sessions
        self.changes[found.change] += found.sessions
        examples = self.examples[found.change]
        examples.extend(found.examples[: EXAMPLES_PER_CHANGE - len(examples)])

    def row(self) -> dict[str, Any]:
        """Return the counts for JSON. Lists have at most MAX_LISTED rows, largest count first."""
        return {
            "disconnects": self.actions["disconnect"],
            "reauthentications": self.actions["reauthenticate"],
            "nases": _rows_by_action(self.nases, "nas"),
            "sites": _rows_by_action(self.sites, "site"),
            "changes": [self._change_row(change, count) for change, count in self.changes.most_common(MAX_LISTED)],
        }

    def _change_row(self, change: OutcomeChange, count: int) -> dict[str, Any]:
        return {
            "action": change.action,
            "sessions": count,
            "before": _answer_row(change.before),
            "after": _answer_row(change.after) | {"reason": change.reason},
            "examples": [
                example._asdict() | {"mac": display_mac(example.mac) if example.mac else ""}
                for example in self.examples[change]
            ],
        }


def _answer_row(answer: ComparedOutcome) -> dict[str, Any]:
    return {"verdict": answer.verdict, "rule": answer.rule_id, "vlan": answer.vlan, "text": str(answer)}


def _rows_by_action(counted: Mapping[tuple[str, str], int], what: str) -> list[dict[str, Any]]:
    rows: dict[str, dict[str, Any]] = {}
    for (name, action), count in counted.items():
        rows.setdefault(name, {what: name, "disconnect": 0, "reauthenticate": 0})[action] += count
    ordered = sorted(rows.values(), key=lambda row: (-row["disconnect"] - row["reauthenticate"], row[what]))
    return ordered[:MAX_LISTED]
