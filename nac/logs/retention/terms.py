"""Terms of a log: the retention values (days, floor, budget, export) that apply now.

If a tenant, the platform or a product version reduces a value, Admit announces the reduction. The reduction takes
effect after NOTICE_PERIOD.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal, get_args

PartName = Literal["days", "floor", "bytes", "export"]
PART_NAMES: tuple[PartName, ...] = get_args(PartName)
# Time between the announcement of a reduction and the first deletion because of it.
NOTICE_PERIOD = timedelta(days=7)
# Number of bytes that means no budget.
UNBOUNDED = 1 << 62


@dataclass(frozen=True, slots=True)
class TermPart:
    value: int
    # The announced lower value, and the time of the announcement; None if no reduction is announced.
    announced: int | None = None
    announced_at: datetime | None = None

    def advance(self, wanted: int, now: datetime) -> "TermPart":
        """Return this retention value as it applies at `now`. `wanted` is the value that the tenant chose.

        If the chosen value drops again during an announcement, Admit announces this second reduction when the first has
        taken effect. So the second reduction does not delay the first, and has its own notice period.
        """
        if wanted >= self.value:
            return TermPart(wanted)
        if self.announced is None or self.announced_at is None:
            return TermPart(self.value, wanted, now)
        announced = max(self.announced, wanted)
        if now - self.announced_at >= NOTICE_PERIOD:
            return TermPart(announced).advance(wanted, now)
        return TermPart(self.value, announced, self.announced_at)


@dataclass(frozen=True, slots=True)
class ChosenTerms:
    """The retention values that the tenant chose, within the platform's limits.

    `bytes` is None if the log has no budget. If `export` is true, Admit exports rows before it deletes them.
    """

    days: int
    floor: int
    bytes: int | None
    export: bool

    def of(self, name: PartName) -> int:
        if name == "bytes":
            return UNBOUNDED if self.bytes is None else self.bytes
        return int(getattr(self, name))


@dataclass(frozen=True, slots=True)
class LogTerms:
    """The retention values of a log that apply now."""

    parts: Mapping[PartName, TermPart]

    @classmethod
    def begin(cls, wanted: ChosenTerms) -> "LogTerms":
        """Return the first terms of a log: all chosen values apply immediately."""
        return cls({name: TermPart(wanted.of(name)) for name in PART_NAMES})

    def advance(self, wanted: ChosenTerms, now: datetime) -> "LogTerms":
        return LogTerms(
            {
                name: self.parts[name].advance(wanted.of(name), now)
                if name in self.parts
                else TermPart(wanted.of(name))
                for name in PART_NAMES
            }
        )

    def settled(self) -> "LogTerms":
        """Return only the values that have no announced reduction."""
        return LogTerms({name: part for name, part in self.parts.items() if part.announced is None})

    @property
    def days(self) -> int:
        return self.parts["days"].value

    @property
    def floor(self) -> int:
        return self.parts["floor"].value

    @property
    def bytes(self) -> int | None:
        value = self.parts["bytes"].value
        return None if value == UNBOUNDED else value

    @property
    def export(self) -> bool:
        return bool(self.parts["export"].value)

    @property
    def announced(self) -> dict[PartName, TermPart]:
        return {name: part for name, part in self.parts.items() if part.announced is not None}
