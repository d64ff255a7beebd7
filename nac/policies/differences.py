"""What another policy changes about requests: answers before and after, grouped and counted."""

import hashlib
import json
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from nac.engine import Decision

# A few more than are shown: one device may come several times in a row.
_MAX_EXAMPLES = 8


class ComparedAnswer(NamedTuple):
    """What a replay compares; "" for no rule, and for no VLAN."""

    verdict: str
    rule_id: str
    vlan: str
    # By monitor mode of a "rule" or "site" a device is admitted whatever the verdict: that is another answer.
    monitored: str = ""
    # Names of pools that addresses come from. The log holds the addresses, so answers as recorded name none.
    pools: tuple[str, ...] = ()

    @classmethod
    def of(cls, decision: Decision) -> "ComparedAnswer":
        return cls(
            decision.verdict,
            decision.rule_id,
            decision.vlan,
            decision.monitored,
            tuple(name for _, name in decision.pools),
        )

    @property
    def permitted(self) -> bool:
        """Whether the device is admitted."""
        return self.verdict != "deny" or bool(self.monitored)

    def __str__(self) -> str:
        by = f"by {self.rule_id}" if self.rule_id else "by no rule"
        vlan = f", VLAN {self.vlan}" if self.vlan else ""
        vlan += f", pool {', '.join(self.pools)}" if self.pools else ""
        if self.monitored:
            return f"admitted{vlan} as the {self.monitored} is in monitor mode (would be: {self.verdict} {by})"
        return f"{self.verdict} {by}{vlan}"


class DifferenceTally:
    """Requests that were answered `before` and are answered `after`."""

    __slots__ = ("_recent", "after", "before", "devices", "differs", "requests")

    def __init__(self, before: ComparedAnswer, after: ComparedAnswer) -> None:
        self.before = before
        self.after = after
        self.differs = before != after
        self.requests = 0
        self.devices: set[bytes] = set()
        # (time, number in the log, device) of those that came last, neighbours of one device left out.
        self._recent: deque[tuple[int, int, bytes]] = deque(maxlen=_MAX_EXAMPLES)

    def note(self, at: int, number: bytes, device: bytes) -> None:
        """`at` in epoch microseconds."""
        self.devices.add(device)
        recent = self._recent
        if not recent or recent[-1][2] != device:
            recent.append((at, int(number), device))

    def examples(self, limit: int) -> list[tuple[int, int]]:
        """(time, number in the log), newest first, each of another device."""
        by_device: dict[bytes, tuple[int, int]] = {}
        for at, number, device in sorted(self._recent, reverse=True):
            by_device.setdefault(device, (at, number))
        return list(by_device.values())[:limit]


@dataclass(frozen=True, slots=True)
class DifferenceExample:
    """One request of a group: who, where, when, and why it is answered as it is now."""

    at: str
    mac: str
    identity: str
    nas: str
    nas_port: str
    site: str
    why: str


@dataclass(frozen=True, slots=True)
class ReplayDifference:
    before: ComparedAnswer
    after: ComparedAnswer
    requests: int
    devices: int
    examples: tuple[DifferenceExample, ...]


def digest_changes(document: object, changes: Iterable[tuple[ComparedAnswer, ComparedAnswer]]) -> str:
    """Names a set of changes by a draft, so that a person can say which ones are meant.

    How many requests each concerns is no part of it: more come by the minute.
    """
    text = json.dumps([document, sorted(changes)], sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]
