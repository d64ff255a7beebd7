"""Differences between the decisions of two policies about the same requests, grouped and counted."""

import hashlib
import json
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from nac.engine import Decision

# Maximum number of stored examples of a difference. A replay reports fewer examples, only one for each device.
_MAX_EXAMPLES = 8


class ComparedOutcome(NamedTuple):
    """The compared parts of a decision; "" for no rule or no VLAN."""

    verdict: str
    rule_id: str
    vlan: str
    # What is in monitor mode: "rule" or "site". Compared, because monitor mode admits the device with any verdict.
    monitored: str = ""
    # Names of the pools of assigned addresses. Empty for recorded decisions, because the log has only the addresses.
    pools: tuple[str, ...] = ()

    @classmethod
    def of(cls, decision: Decision) -> "ComparedOutcome":
        return cls(
            decision.verdict,
            decision.rule_id,
            decision.vlan,
            decision.monitored,
            tuple(name for _, name in decision.pools),
        )

    @property
    def permitted(self) -> bool:
        return self.verdict != "deny" or bool(self.monitored)

    def __str__(self) -> str:
        by = f"by {self.rule_id}" if self.rule_id else "by no rule"
        vlan = f", VLAN {self.vlan}" if self.vlan else ""
        vlan += f", pool {', '.join(self.pools)}" if self.pools else ""
        if self.monitored:
            return f"admitted{vlan} because the {self.monitored} is in monitor mode (would be: {self.verdict} {by})"
        return f"{self.verdict} {by}{vlan}"


class DifferenceTally:
    """Counts requests with the decision `before` in the first policy and the decision `after` in the second
    policy."""

    __slots__ = ("_recent", "after", "before", "devices", "differs", "requests")

    def __init__(self, before: ComparedOutcome, after: ComparedOutcome) -> None:
        self.before = before
        self.after = after
        self.differs = before != after
        self.requests = 0
        self.devices: set[bytes] = set()
        # (time, log number, device) of the latest requests, without consecutive repeats of a device.
        self._recent: deque[tuple[int, int, bytes]] = deque(maxlen=_MAX_EXAMPLES)

    def note(self, at: int, number: bytes, device: bytes) -> None:
        """Record a request; `at` is in epoch microseconds."""
        self.devices.add(device)
        recent = self._recent
        if not recent or recent[-1][2] != device:
            recent.append((at, int(number), device))

    def examples(self, limit: int) -> list[tuple[int, int]]:
        """Return (time, number of the log row) of the latest requests, newest first, one request per device."""
        by_device: dict[bytes, tuple[int, int]] = {}
        for at, number, device in sorted(self._recent, reverse=True):
            by_device.setdefault(device, (at, number))
        return list(by_device.values())[:limit]


@dataclass(frozen=True, slots=True)
class DifferenceExample:
    """A request with this difference, and the explanation of its new decision."""

    at: str
    mac: str
    identity: str
    nas: str
    nas_port: str
    site: str
    why: str


@dataclass(frozen=True, slots=True)
class ReplayDifference:
    before: ComparedOutcome
    after: ComparedOutcome
    requests: int
    devices: int
    examples: tuple[DifferenceExample, ...]


def digest_changes(document: object, changes: Iterable[tuple[ComparedOutcome, ComparedOutcome]]) -> str:
    """Return a digest that identifies a draft and its differences.

    The digest does not contain counts, because new requests arrive all the time.
    """
    text = json.dumps([document, sorted(changes)], sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]
