"""How a vendor's NASes take requests about a live session (RFC 5176): where, named by what, and in which steps."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

RequestPacket = Literal["disconnect", "coa"]
# What a step may end in that another one can still mend.
Setback = Literal["refused", "unanswered"]
REQUEST_KINDS = ("disconnect", "reauthenticate", "bounce", "change")
SETBACKS: tuple[Setback, ...] = ("refused", "unanswered")
# What may name the NAS and the session (RFC 5176 3), each sent where it is known. NAS-Port stands for NAS-Port-Id too,
# whichever the NAS has told.
IDENTIFYING_ATTRIBUTES = (
    "NAS-Identifier",
    "NAS-IP-Address",
    "NAS-Port",
    "User-Name",
    "Acct-Session-Id",
    "Calling-Station-Id",
    "Framed-IP-Address",
)
# As the NAS itself writes the address of a station: of 12 hex digits.
STATION_FORMS = ("AA-BB-CC-DD-EE-FF", "aa-bb-cc-dd-ee-ff", "AA:BB:CC:DD:EE:FF", "aa:bb:cc:dd:ee:ff", "aabbccddeeff")


@dataclass(frozen=True, slots=True)
class RecipeStep:
    # A Disconnect-Request, or a CoA-Request with `attributes`.
    send: RequestPacket
    # Names and values, as `nac.dictionary` takes them.
    attributes: tuple[tuple[str, str], ...] = ()
    # On which of these the next step is tried.
    next_on: tuple[Setback, ...] = ()


@dataclass(frozen=True, slots=True)
class Recipe:
    port: int = 3799
    identify: tuple[str, ...] = ()
    station: str = STATION_FORMS[0]
    # By kind.
    steps: Mapping[str, tuple[RecipeStep, ...]] = field(default_factory=dict)

    def format_station(self, mac: str) -> str:
        """`mac` (12 lower-case hex digits) in the form of this vendor."""
        digits = mac.upper() if self.station.isupper() else mac
        separator = self.station[2] if self.station[2] in "-:" else ""
        return separator.join(digits[at : at + 2] for at in range(0, 12, 2))
