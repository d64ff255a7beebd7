"""What is in force of a tenant's log. Less is announced first and takes effect WAITING later, whatever it comes from:
the tenant, the platform, another version of the product. Pure: what is wanted in, what holds out.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal, get_args

PartName = Literal["days", "floor", "bytes", "export"]
PART_NAMES: tuple[PartName, ...] = get_args(PartName)
# Between the announcement of less and the first day that goes for its sake.
NOTICE_PERIOD = timedelta(days=7)
# Of bytes: no budget.
UNBOUNDED = 1 << 62


@dataclass(frozen=True, slots=True)
class TermPart:
    value: int
    # Less, and since when that is known; None where nothing is announced.
    announced: int | None = None
    announced_at: datetime | None = None

    def advance(self, wanted: int, now: datetime) -> "TermPart":
        """As it is at `now`, where `wanted` is chosen by now.

        What is chosen while something is announced already, and is less than that, is announced after it: it neither
        takes effect sooner nor puts the other off.
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
class WantedTerms:
    """As chosen, within the platform's limits; bytes None for no budget, `export` whether days are to be exported."""

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
    """What is in force, by part."""

    parts: Mapping[PartName, TermPart]

    @classmethod
    def begin(cls, wanted: WantedTerms) -> "LogTerms":
        """Of a log that nothing is known of: nothing was promised before."""
        return cls({name: TermPart(wanted.of(name)) for name in PART_NAMES})

    def advance(self, wanted: WantedTerms, now: datetime) -> "LogTerms":
        return LogTerms(
            {
                name: self.parts[name].advance(wanted.of(name), now)
                if name in self.parts
                else TermPart(wanted.of(name))
                for name in PART_NAMES
            }
        )

    def settled(self) -> "LogTerms":
        """Without the parts of which less is announced."""
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
